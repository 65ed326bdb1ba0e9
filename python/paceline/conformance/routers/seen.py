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

import msgspec
import numpy as np

from paceline import _core, _native
from paceline.conformance.routers.replay import TICKS_PER_S, instance
from paceline.errors import TraceError
from paceline.policy import Policy

__all__ = ["Answer", "Rules", "Sight", "places"]

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
    """What the rules decided: where a request is sent, where it decodes, and which instances change pools."""

    first: int
    last: int
    flips: Sequence[tuple[int, int]] = field(default=())


class Rules:
    """The rules of a policy, to be asked about single requests.

    The rules are those for arrivals and for prefills that end. Nothing else happens
    in the replay of a request, so that each is asked once.

    Parameters
    ----------
    policy
        The policy.
    instances
        How many there are.
    """

    def __init__(self, policy: Policy, instances: int) -> None:
        self._wire = policy.to_wire(instances=instances, ticks_per_s=TICKS_PER_S)
        self._routing = msgspec.json.encode(self._wire["routing"]).decode()
        self._engines = [instance(step_ns=_STEP_NS)] * instances

    def ask(self, sight: Sight) -> Answer:
        """Return what the rules decide about a request.

        Raises
        ------
        TraceError
            If what was seen is not of these instances.
        """
        order, routing, wire = sight.order, self._routing, dict(self._wire)
        count = len(self._engines)
        if sorted(order) != list(range(count)):
            raise TraceError(f"pools seen must have each of the {count} instances once, had {list(order)}")
        for name, values in sight.fields.items():
            if len(values) != count:
                raise TraceError(
                    f"what is seen must have {name} for each of the {count} instances, had {len(values)}"
                )
        for name, values in sight.fields.items():
            for which in ("inst", "here", "there"):
                field_text = _text({"field": f"{which}.{name}"})
                if field_text in routing:
                    shown = _by_index(f"{which}.index", [values[index] for index in order])
                    routing = routing.replace(field_text, _text(shown))
        wire["routing"] = msgspec.Raw(routing.encode())
        if sight.roles is not None:
            wire["roles"] = [sight.roles[index] for index in order]
        request = {
            "arrival_ticks": np.array([0], dtype=np.uint64),
            "prompt_tokens": np.array([sight.prompt_tokens], dtype=np.uint32),
            "output_tokens": np.array([sight.output_tokens], dtype=np.uint32),
        }
        outcome = _native.run(self._engines, request, **wire)
        flips = [(order[at], after) for _, at, _, after, _, _ in json.loads(outcome.flips)]
        ((first, last),) = places(outcome)
        return Answer(first=order[first], last=order[last], flips=flips)


def places(outcome: _core.Outcome) -> list[tuple[int, int]]:
    """Return the first and the last instance of each request."""
    first = outcome.columns["instance"].tolist()
    # Without a rule that migrates requests, there is no column for the last one.
    return list(zip(first, outcome.columns["last_instance"].tolist() or first, strict=True))


def _text(expression: dict[str, Any]) -> str:
    return msgspec.json.encode(expression).decode()


def _by_index(index: str, values: Sequence[float], start: int = 0) -> dict[str, Any]:
    """Return an expression that has one of some values, by the index of the instance, from ``start`` on."""
    if all(value == values[0] for value in values):
        return {"const": float(values[0])}
    half = len(values) // 2
    first = {"op": "lt", "args": [{"field": index}, {"const": float(start + half)}]}
    parts = [_by_index(index, values[:half], start), _by_index(index, values[half:], start + half)]
    return {"op": "if", "args": [first, *parts]}
