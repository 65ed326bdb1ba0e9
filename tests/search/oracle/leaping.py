"""INV-5: a leap is its steps. INV-6: the same inputs give the same bytes, recorded or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from search.oracle.failure import Failure
from search.oracle.replayed import Replayed


def same(kind: str, first: Replayed, second: Replayed) -> Iterator[Failure]:
    """Compare two replays of a case bit by bit; ``kind`` names the promise."""
    different = [
        name for name, values in first.bytes_of_columns.items() if values != second.bytes_of_columns[name]
    ]
    if different:
        yield Failure(f"{kind}: requests", f"columns {', '.join(different)}")
        return
    if first.sketch != second.sketch:
        yield Failure(f"{kind}: sketch", f"{first.sketch!r} and {second.sketch!r}")
        return
    if first.record and second.record and first.logs != second.logs:
        yield Failure(f"{kind}: decisions", _first_difference(first, second))
        return
    told = [name for name, value in first.accounts.items() if second.accounts.get(name, value) != value]
    if told:
        yield Failure(f"{kind}: accounts", ", ".join(told))
        return
    if first.timeline != second.timeline:
        yield Failure(f"{kind}: timeline", _first_sample(first, second))
        return
    ours, theirs = _counters(first), _counters(second)
    if ours != theirs:
        names = sorted(name for name in ours if ours[name] != theirs[name])
        shown = ", ".join(f"{name} {ours[name]!r} and {theirs[name]!r}" for name in names)
        yield Failure(f"{kind}: counters", shown)


def _first_difference(first: Replayed, second: Replayed) -> str:
    for index, (ours, theirs) in enumerate(zip(first.decisions, second.decisions, strict=True)):
        for step, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            if one != other:
                return f"instance {index}, step {step}: {one} and {other}"
        if len(ours) != len(theirs):
            return f"instance {index}: {len(ours)} and {len(theirs)} steps"
    return "none"


def _first_sample(first: Replayed, second: Replayed) -> str:
    if first.timeline is None or second.timeline is None or first.timeline[:2] != second.timeline[:2]:
        shown = [one.timeline and one.timeline[:2] for one in (first, second)]
        return f"moments {shown}"
    for at, (one, other) in enumerate(zip(first.timeline[2], second.timeline[2], strict=True)):
        if one != other:
            names = ", ".join(
                f"{name} {one[name]} and {other[name]}" for name in one if one[name] != other[name]
            )
            return f"row {at}: {names}"
    return "none"


def _counters(replayed: Replayed) -> dict[str, Any]:
    counters = {f"stats.{name}": value for name, value in replayed.stats.items() if name != "events"}
    for index, usage in enumerate(counters.pop("stats.instances")):
        counters.update({f"instances[{index}].{name}": value for name, value in usage.items()})
    return counters
