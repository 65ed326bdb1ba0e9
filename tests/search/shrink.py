"""Shrinking: a failing case is made smaller as long as it fails the same way.

Shrinking works on the case as JSON: it drops requests, instances, classes and parts of expressions, replaces
values with simpler ones, and makes numbers smaller, until no change makes the case smaller.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

from search.brief import SIMPLE
from search.case import Case

Fails = Callable[[Case], bool]
Path = tuple[str | int, ...]

ROOMY = ("blocks", "max_num_seqs", "max_num_batched_tokens")


def shrink(case: Case, fails: Fails, seconds: float) -> Case:
    """Return the smallest case found that still fails."""
    deadline = time.monotonic() + seconds
    parts: dict[str, Any] = {
        "requests": case.requests,
        "config": case.config,
        "prefix_block_tokens": case.prefix_block_tokens,
    }
    tried: set[str] = set()
    smaller = True
    while smaller and time.monotonic() < deadline:
        smaller = False
        for candidate in _candidates(parts):
            if time.monotonic() > deadline:
                break
            text = repr(candidate)
            if text in tried or candidate == parts:
                continue
            tried.add(text)
            if fails(Case(**copy.deepcopy(candidate))):
                parts, smaller = candidate, True
                break
    return Case(**parts)


def _candidates(parts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield smaller cases, the largest reductions first."""
    yield from _fewer_requests(parts)
    yield _rescaled(parts)
    for size in range(len(parts["config"]["instances"]) - 1, 0, -1):
        yield _fewer_instances(parts, size)
    if len(parts["config"]["instances"]) > 1:
        yield _alike(parts)
    for path in _paths(parts["config"], ("config",)):
        value = _at(parts, path)
        for simple in _simpler(path, value):
            yield _with(parts, path, simple)
    for row, request in enumerate(parts["requests"]):
        for name, value in request.items():
            for simple in _simpler((name,), value):
                if name == "arrival":
                    yield _arrivals(parts, row, simple)
                elif name == "output_tokens" and simple < request.get("reasoning_tokens", 0):
                    continue
                else:
                    yield _with(parts, ("requests", row, name), simple)


def _fewer_requests(parts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    rows = parts["requests"]
    size = len(rows) // 2
    while size:
        for start in range(0, len(rows), size):
            fewer = rows[:start] + rows[start + size :]
            if fewer:
                yield {**parts, "requests": fewer}
        size //= 2


def _rescaled(part: Any) -> Any:
    """Divide all values that look like times by a million."""
    if isinstance(part, dict):
        return {name: _rescaled(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_rescaled(value) for value in part]
    if isinstance(part, bool) or part is None or isinstance(part, str):
        return part
    if isinstance(part, int) and part % 10**6 == 0:
        return part // 10**6
    if isinstance(part, float) and 0 < abs(part) < 0.25:
        return part / 10**6
    return part


def _fewer_instances(parts: dict[str, Any], size: int) -> dict[str, Any]:
    config = parts["config"]
    smaller = {**config, "instances": config["instances"][:size], "roles": config["roles"][:size]}
    if config.get("lockstep"):
        groups = [[index for index in group["members"] if index < size] for group in config["lockstep"]]
        pairs = zip(config["lockstep"], groups, strict=True)
        smaller["lockstep"] = [{**group, "members": members} for group, members in pairs if members] or None
    return {**parts, "config": smaller}


def _alike(parts: dict[str, Any]) -> dict[str, Any]:
    config = parts["config"]
    return {
        **parts,
        "config": {**config, "instances": [config["instances"][0]] * len(config["instances"])},
    }


def _arrivals(parts: dict[str, Any], row: int, arrival: int) -> dict[str, Any]:
    """Change an arrival, and all later ones by the same amount, so that they stay in order."""
    rows = parts["requests"]
    before = rows[row - 1]["arrival"] if row else 0
    change = max(arrival, before) - rows[row]["arrival"]
    moved = [{**one, "arrival": one["arrival"] + change} for one in rows[row:]]
    return {**parts, "requests": [*rows[:row], *moved]}


def _paths(part: Any, at: Path) -> Iterator[Path]:
    """Yield the places of all parts, the outer ones first."""
    waiting = [(part, at)]
    while waiting:
        part, at = waiting.pop(0)
        if isinstance(part, dict):
            inner = [(value, (*at, name)) for name, value in part.items()]
        elif isinstance(part, list):
            inner = [(value, (*at, index)) for index, value in enumerate(part)]
        else:
            continue
        for value, path in inner:
            yield path
            waiting.append((value, path))


def _simpler(path: Path, value: Any) -> Iterator[Any]:
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    own = path[-1] == name
    if own and name in SIMPLE and value != SIMPLE[name]:
        yield SIMPLE[name]
    if isinstance(value, dict):
        if "args" in value:
            yield from value["args"]
            yield {"const": 1}
        elif "field" in value:
            yield {"const": 1}
        elif value.get("kind") == "ranked":
            yield {**value, "classes": [{"when": None, "hold": 0, "keys": []}]}
        elif "rules" in value:
            yield from value["rules"]
            yield {**value, "rules": value["rules"][:-1] or value["rules"]}
        elif "of" in value and "rule" in value:
            yield value["of"]
    elif isinstance(value, list):
        if len(value) > 1 or name in ("keys", "min", "prefix", "every"):
            for index in range(len(value)):
                yield value[:index] + value[index + 1 :]
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int):
        # A limit that does not bind stays so: a smaller number makes no smaller case.
        if not (own and name in ROOMY and value == SIMPLE[name]):
            yield from _smaller(value)
    elif isinstance(value, float) and value not in (0.0, 1.0):
        yield float(round(value, 12)) if value != round(value, 12) else 0.0


def _smaller(value: int) -> Iterator[int]:
    if value <= 0:
        return
    seen = set()
    unit = 10**9 if value % 10**9 == 0 else 10**6 if value % 10**6 == 0 else 1
    for less in (0, 1, unit, value // unit // 2 * unit, value - 8 * unit, value - unit, value // unit):
        if 0 <= less < value and less not in seen:
            seen.add(less)
            yield less


def _at(parts: Any, path: Path) -> Any:
    for name in path:
        parts = parts[name]
    return parts


def _with(parts: Any, path: Path, value: Any) -> Any:
    """Return a copy with another value at a place."""
    if not path:
        return value
    changed = copy.copy(parts)
    changed[path[0]] = _with(parts[path[0]], path[1:], value)
    return changed
