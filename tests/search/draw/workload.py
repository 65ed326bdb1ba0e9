"""Requests: many at one moment, short, some with reasoning tokens, some with shared prefixes."""

from __future__ import annotations

from typing import Any

from search.draw.source import Source

Row = dict[str, Any]


def requests(source: Source, instances: int) -> list[Row]:
    """Draw rows, in the order of their arrival."""
    at = 0
    gap = source.pick((0, 3, 12, 30) if source.pressed else (0, 0, 12, 12, 60))
    count = source.whole(1, 6) if source.chance(0.5) else source.whole(1, 8 * instances)
    if source.pressed:
        count = source.whole(3 + instances, 6 * instances + 2)
    longest_output = source.pick((20, 40, 40) if source.pressed else (1, 3, 20, 40, 40))
    longest_prompt = source.pick((3, 25, 25))
    rows = []
    for _ in range(count):
        at += source.ticks(0, gap)
        output = source.whole(1, longest_output)
        share = source.pick((0.0, 0.5, 0.5, 0.9, 1.0))
        rows.append(
            {
                "arrival": at,
                "prompt_tokens": source.whole(1, longest_prompt),
                "output_tokens": output,
                "reasoning_tokens": int(share * output),
                "priority": source.whole(0, 2),
                "score": source.whole(0, 2) / 2,
                "tenant": source.whole(0, 2),
            }
        )
    return rows


def numbers(source: Source, rows: list[Row]) -> None:
    """Give rows two further columns of numbers."""
    for row in rows:
        row["numbers"] = [float(source.whole(0, 2)), source.ticks(0, 600) / 10**12]


def prefixes(source: Source, rows: list[Row]) -> int:
    """Give rows ids of blocks, few, so that prompts share some and then differ. Return the blocks' tokens."""
    size = source.pick((1, 1, 2, 4))
    families = source.some(1, 3, lambda: [source.whole(0, 2) for _ in range(source.whole(0, 24))])
    for row in rows:
        full = row["prompt_tokens"] // size
        ids = source.pick(families)
        row["prefix"] = ids[: min(source.whole(0, 24), full)]
    return size


def models(source: Source, rows: list[Row], instances: list[dict[str, Any]]) -> None:
    """Have instances serve a model each, or all, and rows name one, mostly one that is served."""
    for instance in instances:
        instance["model"] = source.pick((None, 0, 0, 1, 1))
    for row in rows:
        row["model"] = source.pick((None, 0, 0, 0, 1, 1, 2))


def adapters(source: Source, rows: list[Row]) -> None:
    """Have rows run with a few adapters, or none."""
    for row in rows:
        row["adapter"] = source.pick((None, 0, 0, 1, 1, 2, 3))


def sessions(source: Source, rows: list[Row]) -> None:
    """Make rows turns of a few conversations, each mostly longer than all before it."""
    said: dict[int, int] = {}
    for row in rows:
        session = source.pick((None, 0, 0, min(1, len(rows) - 1)))
        row["session"] = session
        if session is None:
            continue
        if source.chance(0.8):
            row["prompt_tokens"] = min(said.get(session, 0) + row["prompt_tokens"], 60)
        said[session] = row["prompt_tokens"] + row["output_tokens"]
