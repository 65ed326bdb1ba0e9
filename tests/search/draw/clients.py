"""Clients: requests that wait for answers, and limits of what is in flight."""

from __future__ import annotations

from search.draw.expressions import Wire
from search.draw.source import Source

Row = Wire


def clients(source: Source, rows: list[Row]) -> Wire | None:
    """Have rows wait for answers, and return a limit of what is in flight; mostly one of the two."""
    limited = source.chance(0.6)
    limit = limit_of(source) if limited else None
    by_session = limit is not None and limit["by_session"]
    waits = source.pick(("think", "parents", "both")) if not limited or source.chance(0.6) else "nothing"
    in_sessions = any("session" in row for row in rows)
    if waits in ("think", "both") or (by_session and in_sessions):
        think(source, rows, always=by_session)
    if waits in ("parents", "both"):
        parents(source, rows)
    if waits != "nothing" and source.chance(0.3):
        for row in rows:
            row["not_before"] = source.ticks(0, 300) if source.chance(0.5) else 0
    if source.chance(0.35):
        return {**(limit or {"most": None, "gap": 0, "by_session": False}), "patience": patience(source)}
    return limit


def patience(source: Source) -> Wire:
    """Return for how long clients wait, and when they send again."""
    return {
        "timeout": source.pick((None, source.ticks(1, 60), source.ticks(10, 300), source.ticks(50, 1500))),
        "retries": source.pick((0, 1, 1, 2, 3)),
        "backoff": source.pick((0, source.ticks(1, 20), source.ticks(1, 100))),
        "growth": source.pick((1, 2, 3)),
        "longest": source.pick((source.ticks(1, 100), 10**12)),
        "jitter": source.pick((0, 250_000, 1_000_000)),
        "seed": source.whole(0, 9),
    }


def cancels(source: Source, rows: list[Row]) -> None:
    """Have clients cancel rows: some time after they are sent, after some tokens, or both."""
    kind = source.pick(("after", "tokens", "both"))
    longest = source.pick((60, 300, 1500))
    for row in rows:
        if kind != "tokens":
            row["cancel_after"] = source.ticks(0, longest) if source.chance(0.5) else None
        if kind != "after":
            row["cancel_tokens"] = source.whole(1, 12) if source.chance(0.5) else None


def limit_of(source: Source) -> Wire:
    return {
        "most": source.pick((1, 1, 2, 3, 5)),
        "gap": source.pick((0, 0, source.ticks(1, 30))),
        "by_session": source.chance(0.4),
    }


def think(source: Source, rows: list[Row], *, always: bool) -> None:
    """Give rows sessions, if they have none, and think times.

    Where sessions are limited, each turn has one (``always``).
    """
    # Sessions are numbered below the number of rows.
    names = (None, 0, 0, min(1, len(rows) - 1), min(2, len(rows) - 1))
    longest = source.pick((0, 3, 30, 100))
    for row in rows:
        if "session" not in row:
            row["session"] = source.pick(names)
        waits = row["session"] is not None and (always or source.chance(0.8))
        row["think"] = source.ticks(0, longest) if waits else None


def parents(source: Source, rows: list[Row]) -> None:
    """Have rows wait for some of the rows not far before them: one, several that join, or none."""
    longest = source.pick((0, 3, 30))
    for at, row in enumerate(rows):
        count = min(at, source.pick((0, 1, 1, 2, 3)))
        row["parents"] = sorted(source.whole(max(0, at - 5), at - 1) for _ in range(count))
        row["delay"] = source.ticks(0, longest) if row["parents"] else 0
