"""The measurements as tables in a page, between two markers."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benches.peers.measuring import BASE, TIMES, about, peers
from benches.peers.work import WORKS

BEGIN = "<!-- begin peers -->"
END = "<!-- end peers -->"
ABSENT = Path(__file__).parent / "absent.toml"
COSTS = {"linear": "the shared price of a step", "own": "each simulator's own price of a step"}


def write_tables(measured: Path, page: Path) -> None:
    """Replace what stands between the markers of a page.

    Raises
    ------
    ValueError
        If the page has not each marker once, in order.
    """
    text = page.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{page.name} must have {BEGIN!r} and {END!r} once each, in this order")
    kept = json.loads(measured.read_text())
    # In the order of the adapters. Notes may have been corrected since it was measured; the version says that
    # it is the same simulator.
    known = {name: peer.ABOUT for name, peer in peers().items() if name in kept["peers"]}
    kept["peers"] = {name: kept["peers"][name] for name in (*known, *sorted(kept["peers"].keys() - known))}
    for name, peer in kept["peers"].items():
        if name in known and peer["about"]["version"] == known[name].version:
            peer["about"] = about(known[name])
    block = f"{BEGIN}\n\n{tables(kept)}\n\n{END}"
    page.write_text(re.sub(re.escape(BEGIN) + ".*" + re.escape(END), lambda _: block, text, flags=re.DOTALL))


def tables(kept: Mapping[str, Any]) -> str:
    """Return all tables as Markdown."""
    parts = [_setting(kept)]
    for cost, title in COSTS.items():
        parts += [f"#### Time, under {title}", speed(kept, cost)]
    parts += ["#### Answers, under the shared price of a step", same(kept)]
    parts += ["#### Answers, under each simulator's own price of a step", answers(kept)]
    parts += ["#### What could not be said alike", notes(kept)]
    parts += ["#### Not measured", absent(tomllib.loads(ABSENT.read_text())["absent"])]
    return "\n\n".join(parts)


def _setting(kept: Mapping[str, Any]) -> str:
    of, price, machine = kept["deployment"], kept["linear"], kept["machine"]
    versions = ", ".join(
        f"{each['about']['name']} {each['about']['version']} ({each['about']['source']})"
        for each in kept["peers"].values()
    )
    works = ", ".join(
        f"{one.name} ({one.rate:g}/s{'' if one.blocks == of['blocks'] else f', {one.blocks:,} blocks'})"
        for one in WORKS
    )
    return (
        f"Measured on {kept['date']}, on {machine['cores']} cores of an {machine['cpu']} that others used "
        f"too, with Python {machine['python']}: {versions}.\n\n"
        f"One replica of Llama 3.1 8B on an H100; {of['max_num_batched_tokens']:,} tokens a step, "
        f"{of['max_num_seqs']} running requests, {of['blocks']:,} blocks of {of['block_tokens']} tokens, no "
        f"prefix cache. The shared price is {1e3 * price['step_s']:g} ms a step and "
        f"{1e6 * price['token_s']:g} µs a token that it computes. "
        f"Poisson arrivals: {works}."
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _runs(kept: Mapping[str, Any], cost: str) -> dict[str, dict[str, dict[int, dict[str, Any]]]]:
    """Return the runs under a price by work, simulator and number of requests."""
    found: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
    for name, peer in kept["peers"].items():
        for row in peer["runs"].values():
            if row["cost"] == cost:
                work = row["work"].split(",")[0]
                found.setdefault(work, {}).setdefault(name, {})[row["requests"]] = row
    return found


#: The columns of a table of times, of a work of n requests and one of `TIMES` as many.
SPEED = (
    *("", "processors: n", f"{TIMES} n", "growth", "over Paceline"),
    *(f"replay alone: {TIMES} n", "growth", "over Paceline", f"wall: {TIMES} n", f"peak: {TIMES} n", "runs"),
)


def speed(kept: Mapping[str, Any], cost: str) -> str:
    """Return the least times of each simulator and work: of the whole process, and of the replay alone."""
    rows = []
    for work, by_name in _runs(kept, cost).items():
        base = by_name.get(BASE, {})
        for name, sizes in by_name.items():
            small = sizes[min(sizes)]
            large = sizes.get(TIMES * small["requests"])
            title = f"{kept['peers'][name]['about']['name']}, {work}, n = {small['requests']:,}"
            if large is None:
                rows.append((title, _seconds(min(small["cpu_s"])), *(len(SPEED) - 2) * ["–"]))
                continue
            ours = base.get(large["requests"])
            runs = min(len(small["cpu_s"]), len(large["cpu_s"]))
            rows.append(
                (
                    *(title, _seconds(min(small["cpu_s"])), *_grown("cpu_s", small, large, ours)),
                    *_grown("replay_s", small, large, ours),
                    *(_seconds(min(large["wall_s"])), f"{max(large['peak_mb']):.0f} MB", str(runs)),
                )
            )
    return _table(SPEED, rows)


def _grown(
    of: str, small: Mapping[str, Any], large: Mapping[str, Any], ours: Mapping[str, Any] | None
) -> tuple[str, str, str]:
    """Return the least time of the larger work, its ratio to the smaller's, and that to Paceline's."""
    least = min(large[of])
    ratio = "–" if ours is None else f"{least / min(ours[of]):.1f}"
    return _seconds(least), f"{least / min(small[of]):.2f}", ratio


def _seconds(value: float) -> str:
    return f"{value:.3f} s" if value < 1 else f"{value:.2f} s" if value < 100 else f"{value:.0f} s"


#: Statistics of a summary, with their titles.
METRICS = {
    f"{name}_{statistic}": f"{name.upper()} {title}"
    for name in ("ttft", "tpot", "e2e")
    for statistic, title in (("mean", "mean"), ("median", "median"), ("p99", "P99"))
}


def same(kept: Mapping[str, Any]) -> str:
    """Return how many requests have Paceline's moments, the largest differences, and those of the metrics."""
    head = ("", "the same to 1 µs", "first token, at most", "finish, at most", *METRICS.values(), "tokens/s")
    rows = []
    for work, by_name in _runs(kept, "linear").items():
        for name, sizes in by_name.items():
            requests, row = max(sizes.items())
            title = f"{kept['peers'][name]['about']['name']}, {work}, {requests:,}"
            if name == BASE:
                rows.append((title, "", "", "", *_absolute(row["summary"])))
            else:
                ours = by_name[BASE][requests]["summary"]
                rows.append((title, *_gaps(row.get("against")), *_changes(row["summary"], ours)))
    return _table(head, rows)


def _changes(of: Mapping[str, float], ours: Mapping[str, float]) -> list[str]:
    changes = (100 * (of[each] / ours[each] - 1) for each in (*METRICS, "tokens_per_s"))
    return [f"{change:+.2f}%" if abs(change) >= 0.005 else "0" for change in changes]


def _gaps(gap: Mapping[str, float] | None) -> list[str]:
    if gap is None:
        return ["–", "–", "–"]
    return [f"{100 * gap['same']:.1f}%", _gap(gap["first_token_most_s"]), _gap(gap["finish_most_s"])]


def _gap(seconds: float) -> str:
    return "0" if seconds < 1e-6 else f"{1e3 * seconds:.2f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _absolute(summary: Mapping[str, float]) -> list[str]:
    times = [f"{1e3 * summary[each]:,.1f} ms" for each in METRICS]
    return [*times, f"{summary['tokens_per_s']:,.0f}"]


def answers(kept: Mapping[str, Any]) -> str:
    """Return each simulator's metrics, a row a simulator and work, at the largest number of requests."""
    rows = []
    for work, by_name in _runs(kept, "own").items():
        for name, sizes in by_name.items():
            row = sizes[max(sizes)]
            first = f"{kept['peers'][name]['about']['name']}, {work}, {row['requests']:,}"
            rows.append((first, *_absolute(row["summary"])))
    return _table(("", *METRICS.values(), "tokens/s"), rows)


def notes(kept: Mapping[str, Any]) -> str:
    """Return how each simulator defines metrics, what it could not be told, and why its answers differ."""
    lines = []
    for peer in kept["peers"].values():
        of = peer["about"]
        price = f" Own price: {of['price']}." if of["price"] else ""
        lines += [f"- {of['name']}: metrics {of['definitions']}.{price}"]
        lines += [f"  - Instead: {each}." for each in of["instead"]]
        lines += [f"  - Differs: {each}." for each in of["differs"]]
        lines += [f"  - Failed, {where}: {error}." for where, error in sorted(peer["errors"].items())]
    return "\n".join(lines)


def absent(rows: Iterable[Mapping[str, str]]) -> str:
    """Return the simulators that were not measured, with the reason."""
    return "\n".join(f"- {row['name']}: {row['why']}." for row in rows)
