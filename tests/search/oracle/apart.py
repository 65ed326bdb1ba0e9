"""Instances that do not influence each other give the same bytes on any number of threads."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from paceline import _core
from paceline.errors import PacelineError
from search.case import Case
from search.oracle.failure import Failure
from search.oracle.leaping import same
from search.oracle.replayed import Replayed

WAITS = ("think", "parents", "delay", "not_before", "cancel_after", "cancel_tokens")
COUPLING = ("clients", "handover", "lockstep", "sample", "entrance")
"""Parts of a configuration that couple instances."""


def broken(case: Case, number: int, asked: Counter[str]) -> Iterator[Failure]:
    """Replay a case without that which couples its instances, on one thread and on several."""
    source = random.Random(number)
    apart = uncoupled(case, source)
    text = msgspec.json.encode({**apart.config, "leap": True, "record_decisions": False})
    threads = source.choice((2, 3))
    try:
        coupled = _core.coupling(text, apart.columns())
        if coupled:
            asked[f"on threads: not, by {coupled}"] += 1
            return
        alone = Replayed(apart, leap=True, record=False)
    except PacelineError as error:
        # An instance needs what was taken out.
        asked["on threads: an error"] += 1
        yield from _fails_with(str(error), text, apart, threads)
        return
    asked["on threads"] += 1
    outcome = _core.replay(text, apart.columns(), None, None, threads)
    together = Replayed(apart, leap=True, record=False, outcome=outcome)
    yield from same("threads: the replay on one", alone, together)
    events = [one.stats["events"] for one in (alone, together)]
    if events[0] != events[1]:
        yield Failure("threads: events", f"{events[0]} and {events[1]}")


def _fails_with(error: str, text: bytes, case: Case, threads: int) -> Iterator[Failure]:
    """Compare an error with that of several threads."""
    try:
        _core.replay(text, case.columns(), None, None, threads)
    except PacelineError as other:
        if str(other) != error:
            yield Failure("threads: another error", f"{error} and {other}")
    else:
        yield Failure("threads: no error", error)


def uncoupled(case: Case, source: random.Random) -> Case:
    """Return a case without that which couples instances, under a rule that reads no state."""
    config = {name: part for name, part in case.config.items() if name not in COUPLING}
    instances = [{**one, "tier": None} for one in config["instances"]]
    rows = [{name: value for name, value in row.items() if name not in WAITS} for row in case.requests]
    several = len(instances) > 1
    config |= {
        "instances": instances if several else 2 * instances,
        "roles": config.get("roles") or [] if several else [],
        "routing": {"on_arrival": _rule(source, rows)},
        "leaving": [],
        "entrance": {"frontend": source.choice((0, 0, 1000))},
        "routers": {"count": source.choice((1, 2)), "report_every": None, "give_up_after": None, "seed": 5},
    }
    return Case(rows, config, case.prefix_block_tokens)


def _rule(source: random.Random, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Draw a rule that reads no state of instances."""
    last = source.choice(
        (
            {"rule": "round_robin"},
            {"rule": "pick", "min": [], "ties": "random"},
            {"rule": "pick", "min": [{"field": "inst.total_blocks"}], "ties": "rotate", "among": 2},
        )
    )
    keyed = [name for name in ("session", "tenant") if rows and name in rows[0]]
    if not keyed or source.random() < 0.5:
        return last
    return {"rule": "first_of", "rules": [{"rule": "affinity", "key": source.choice(keyed)}, last]}
