"""Cases near others: alike in all but a few places.

Where a defect or a mutant makes a difference only as a certain number of blocks or tokens is just reached,
few drawn cases notice it. One that runs the code in question is often a step away from one that does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from search.case import Case
from search.draw import workload
from search.draw.source import Source

SMALL = 1000
"""Numbers below this count requests, tokens, blocks and steps, or are ticks of a case whose unit is one."""
UNITS = 10**4
"""Two parts that differ by more than this are of cases whose times have different units."""


def near(case: Case, other: Case, source: Source) -> Case:
    """Return a case that differs from another in one to three places; ``other``: has parts to take over."""
    config, rows = copy.deepcopy(case.config), copy.deepcopy(case.requests)
    for _ in range(source.whole(1, 3)):
        source.pick(CHANGES)(config, rows, other, source)
    if "req.column" in str(config) and "numbers" not in rows[0]:
        # What was taken over reads columns that the other case's requests have.
        workload.numbers(source, rows)
    return Case(rows, config, case.prefix_block_tokens)


def _values(part: Any, kind: type) -> Iterator[tuple[Any, Any]]:
    """Yield the places of all values of a type: what they are in, and by which name or index."""
    for name, value in part.items() if isinstance(part, dict) else enumerate(part):
        if type(value) is kind:
            yield part, name
        elif isinstance(value, dict | list):
            yield from _values(value, kind)


def _numbers(part: Any) -> Iterator[int]:
    if isinstance(part, dict | list):
        yield from (inside[name] for inside, name in _values(part, int))
    elif type(part) is int:
        yield part


def _number(config: dict[str, Any], rows: list[dict[str, Any]], other: Case, source: Source) -> None:
    """Change a number of an instance or of what instances share."""
    shared = [config[name] for name in ("handover", "lockstep", "stores", "pace") if config.get(name)]
    # A class of an expression is an index, of columns or accumulators that there are.
    places = [
        (inside, name)
        for inside, name in _values([source.pick(config["instances"]), *shared], int)
        if name != "class"
    ]
    inside, name = source.pick(places)
    inside[name] = _other(inside[name], source)


def _other(value: int, source: Source) -> int:
    near_by = (
        [value - 1, value + 1] if value >= SMALL else [value - 1, value + 1, value // 2, 2 * value, 0, 1]
    )
    return max(source.pick(near_by), 0)


def _blocks(config: dict[str, Any], rows: list[dict[str, Any]], other: Case, source: Source) -> None:
    """Give an instance a few blocks or seats more or fewer."""
    instance = source.pick(config["instances"])
    of = source.pick((instance, instance, instance["scheduler"]))
    name = "blocks" if of is instance else source.pick(("max_num_seqs", "max_num_batched_tokens"))
    of[name] = max(of[name] + source.pick((-3, -2, -1, 1, 2, 3)), 1)


def _flag(config: dict[str, Any], rows: list[dict[str, Any]], other: Case, source: Source) -> None:
    """Turn a switch of an instance."""
    inside, name = source.pick(list(_values(source.pick(config["instances"]), bool)))
    inside[name] = not inside[name]


def _part(config: dict[str, Any], rows: list[dict[str, Any]], other: Case, source: Source) -> None:
    """Take a part of an instance over from the other case."""
    instance, of = source.pick(config["instances"]), source.pick(other.config["instances"])
    if source.chance(0.7):
        instance, of = instance["scheduler"], of["scheduler"]
    name = source.pick(sorted(of))
    sizes = sorted(max(_numbers(one.get(name)), default=0) for one in (instance, of))
    # Ticks among those of another unit: a step might take no time, or a replay have as many steps as ticks.
    if sizes[1] <= UNITS * max(sizes[0], 1):
        instance[name] = copy.deepcopy(of[name])


def _moment(config: dict[str, Any], rows: list[dict[str, Any]], other: Case, source: Source) -> None:
    """Have a request and those after it arrive earlier or later, or with the one before it."""
    at = source.whole(0, len(rows) - 1)
    before = rows[at - 1]["arrival"] if at else 0
    gap = rows[at]["arrival"] - before
    change = source.pick((-gap, -(gap // 2), gap, -1, 1, 2))
    for row in rows[at:]:
        row["arrival"] = max(row["arrival"] + change, before)


def _tokens(config: dict[str, Any], rows: list[dict[str, Any]], other: Case, source: Source) -> None:
    """Give a request other numbers of tokens."""
    row = source.pick(rows)
    name = source.pick(("prompt_tokens", "output_tokens"))
    row[name] = max(_other(row[name], source), 1)
    if "reasoning_tokens" in row:
        row["reasoning_tokens"] = min(row["reasoning_tokens"], row["output_tokens"])


def _request(config: dict[str, Any], rows: list[dict[str, Any]], other: Case, source: Source) -> None:
    """Leave a request out, or send it twice."""
    at = source.whole(0, len(rows) - 1)
    if len(rows) > 1 and source.chance(0.5):
        del rows[at]
        places = {row: row - (row > at) for row in range(len(rows) + 1) if row != at}
    else:
        rows.insert(at, copy.deepcopy(rows[at]))
        places = {row: row + (row >= at) for row in range(len(rows) - 1)}
    for row in rows:
        if row.get("parents"):
            row["parents"] = [places[parent] for parent in row["parents"] if parent in places]


Change = Callable[[dict[str, Any], list[dict[str, Any]], Case, Source], None]
CHANGES: Sequence[Change] = (
    *(_number, _blocks, _blocks, _flag, _part, _moment, _moment, _tokens, _tokens, _request),
)
