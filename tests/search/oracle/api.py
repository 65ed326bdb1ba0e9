"""The public API and the engine accept the same compositions, with the same meaning.

Each scheduler and routing is built from the classes of `paceline.policy`, and their wire form is replayed.
Python may refuse more than the engine does (a key that drifts without a refresh, a rule that is never
reached). It must refuse all that the engine refuses, and its wire form must be the case's configuration.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from paceline.errors import PacelineError, PolicyError
from paceline.policy import Scheduler
from paceline.policy.routers import routers_to_wire
from paceline.policy.wire import routing_to_wire
from search.case import Case
from search.oracle import leaping
from search.oracle.failure import Failure
from search.oracle.replayed import Replayed
from search.spelled import rules, scheduler
from search.spelled.expressions import NAMES

DEFAULTS = (1, 1)
OF_A_POLICY = ("requests may migrate", "requests leave their instance")
"""Refusals of a scheduler's setting beside something that is no scheduler's."""
Wire = dict[str, Any]


def broken(replayed: Replayed, asked: Counter[str]) -> Iterator[Failure]:
    """Replay a case through the public API, and yield differences."""
    config = replayed.case.config
    spelled = {**config, "instances": [_instance(one, asked) for one in config["instances"]]}
    spelled.update(_routing(config, asked))
    if spelled == config:
        return
    try:
        again = Replayed(replace(replayed.case, config=spelled), leap=replayed.leap, record=replayed.record)
    except PacelineError as error:
        yield Failure("API: Python builds what the engine refuses", str(error))
        return
    for failure in leaping.same("API: means the same", replayed, again):
        names = [name for name in config if config[name] != spelled[name]]
        yield replace(failure, detail=f"{failure.detail}; spelled {names}")


def accepted(case: Case, refusal: str) -> list[Failure]:
    """Yield a failure if Python builds what the engine refused with this message.

    What Python derives from an expression, such as the fewest tokens of a step, may differ from the case.
    A scheduler is spelled out by itself: what it excludes elsewhere is refused of a whole policy.
    """
    if any(reason in refusal for reason in OF_A_POLICY):
        return []
    place = re.match(r"instances\[(\d+)\]\.scheduler\.", refusal)
    config, instances = case.config, case.config["instances"]
    told: Wire = {}
    if place is not None:
        at = int(place[1])
        built = _instance(instances[at], Counter())
        if built is not instances[at]:
            told = {"instances": [*instances[:at], built, *instances[at + 1 :]]}
    elif refusal.startswith("routing"):
        told = _routing(config, Counter())
    try:
        if told:
            Replayed(replace(case, config={**config, **told}), leap=True, record=False)
    except PacelineError as error:
        if str(error).partition(":")[0] == refusal.partition(":")[0]:
            return [Failure("API: Python builds what the engine refuses", f"{error}: {told}")]
    return []


def _instance(instance: Wire, asked: Counter[str]) -> Wire:
    wire, blocks = instance["scheduler"], instance["blocks"]
    if not scheduler.sayable(wire):
        return instance
    try:
        built = scheduler.spell(wire, blocks)
    except PolicyError as error:
        asked[f"API: Python refuses a scheduler: {_rule(error)}"] += 1
        return instance
    asked["API: a scheduler is spelled out"] += 1
    told = built.to_wire(num_blocks=blocks, defaults=DEFAULTS, ticks_per_s=scheduler.TICKS_PER_S, names=NAMES)
    return {**instance, "scheduler": told}


def _routing(config: Wire, asked: Counter[str]) -> Wire:
    if not rules.sayable(config):
        return {}
    try:
        policy = rules.spell(config, Scheduler())
    except PolicyError as error:
        asked[f"API: Python refuses a routing: {_rule(error)}"] += 1
        return {}
    asked["API: a routing is spelled out"] += 1
    told: Wire = {"routing": routing_to_wire(policy.rules, policy.monitors, NAMES, scheduler.TICKS_PER_S)}
    if "routers" in config:
        told["routers"] = routers_to_wire(
            policy.routers, policy.reports, policy.give_up_after, policy.seed, scheduler.TICKS_PER_S
        )
    if policy.handover is not None:
        told["handover"] = policy.handover.to_wire(scheduler.TICKS_PER_S)
    if policy.pace is not None:
        told["pace"] = policy.pace.to_wire(scheduler.TICKS_PER_S)
    return told


def _rule(error: PolicyError) -> str:
    """Return the rule that an error states, without its values."""
    text = re.sub(r"\d+(\.\d+)?(e-?\d+)?", "N", str(error))
    return re.sub(r"(, was|, were|, had| in | of first_of|: ).*", "", text)[:90]
