"""Asking the rules of a policy about what a log says that the router saw.

Each decision is a replay of one request, on instances that stand in the order in
which the router went over them. The policy's rules are evaluated by the engine,
with numbers in place of the fields that the log gives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paceline import _core, _native
from paceline.conformance.routers.replay import TICKS_PER_S, instance
from paceline.policy import Policy

__all__ = ["Answer", "Sight", "ask", "places"]

_STEP_NS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a router saw before a decision.

    Attributes
    ----------
    prompt_tokens, output_tokens
        Of the request.
    order
        The instances, in the order in which the router went over them.
    fields
        The fields of instances that were seen, by their names in the wire format
        without ``inst.``: a number for each instance, by its index.
    roles
        The code of each instance's pool, by its index; None: as at the start.
    """

    prompt_tokens: int
    output_tokens: int
    order: Sequence[int]
    fields: Mapping[str, Sequence[float]]
    roles: Sequence[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the rules decided: where a request is sent, where it decodes, and which instances changed pools."""

    first: int
    last: int
    flips: Sequence[tuple[int, int]] = field(default=())


def ask(policy: Policy, sight: Sight) -> Answer:
    """Ask the rules of a policy about a request.

    The rules are those for arrivals and for prefills that end. Nothing else happens
    in the replay, so that each is asked once.
    """
    count = len(sight.order)
    wire = policy.to_wire(instances=count, ticks_per_s=TICKS_PER_S)
    if sight.roles is not None:
        wire["roles"] = [sight.roles[index] for index in sight.order]
    shown = {name: [values[index] for index in sight.order] for name, values in sight.fields.items()}
    for moment in ("on_arrival", "decode_on_arrival", "on_prefilled"):
        wire["routing"][moment] = _given(wire["routing"][moment], shown)
    request = {
        "arrival_ticks": np.array([0], dtype=np.uint64),
        "prompt_tokens": np.array([sight.prompt_tokens], dtype=np.uint32),
        "output_tokens": np.array([sight.output_tokens], dtype=np.uint32),
    }
    engine = instance(step_ns=_STEP_NS)
    outcome = _native.run([engine] * count, request, **wire)
    flips = [(sight.order[at], after) for _, at, _, after, _, _ in json.loads(outcome.flips)]
    ((first, last),) = places(outcome)
    return Answer(first=sight.order[first], last=sight.order[last], flips=flips)


def places(outcome: _core.Outcome) -> list[tuple[int, int]]:
    """Return the first and the last instance of each request."""
    first = outcome.instance.tolist()
    # Without a rule that migrates requests, there is no column for the last one.
    return list(zip(first, outcome.last_instance.tolist() or first, strict=True))


def _given(wire: Any, shown: Mapping[str, Sequence[float]]) -> Any:  # noqa: ANN401 - any part of a rule
    """Return a rule, or a part of one, with numbers in place of fields."""
    if isinstance(wire, list):
        return [_given(part, shown) for part in wire]
    if not isinstance(wire, dict):
        return wire
    if "field" in wire:
        which, _, name = wire["field"].partition(".")
        return _by_index(f"{which}.index", shown[name]) if name in shown else wire
    return {key: _given(part, shown) for key, part in wire.items()}


def _by_index(index: str, values: Sequence[float], start: int = 0) -> dict[str, Any]:
    """Return an expression that has one of some values, by the index of the instance, from ``start`` on."""
    if len(values) == 1:
        return {"const": float(values[0])}
    half = len(values) // 2
    first = {"op": "lt", "args": [{"field": index}, {"const": float(start + half)}]}
    parts = [_by_index(index, values[:half], start), _by_index(index, values[half:], start + half)]
    return {"op": "if", "args": [first, *parts]}
