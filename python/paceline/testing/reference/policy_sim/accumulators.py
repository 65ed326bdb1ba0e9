"""Numbers by group of an instance's requests, charged event by event."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from paceline.testing.reference.policy_sim.request import Request

UNITS = 2**20
"""Units in one: charges are whole numbers of them."""

Group = tuple[str, int]


class Accumulators:
    """The accumulators of one instance; each has a number for each group, 0 at first.

    Parameters
    ----------
    rules : list of dict
        As the engine's configuration spells them.
    """

    def __init__(self, rules: list[dict[str, Any]]) -> None:
        self.rules = rules
        self.now = 0
        self.last: Request | None = None  # the request that left the queue last
        self._units: list[dict[Group, int]] = [{} for _ in rules]  # if it falls, those charged at `_then`
        self._rest: list[dict[Group, float]] = [{} for _ in rules]
        self._then: list[dict[Group, int]] = [{} for _ in rules]

    def group(self, index: int, request: Request) -> Group:
        """Return the group of a request in an accumulator."""
        by = self.rules[index]["by"]
        if by == "all":
            return ("all", 0)
        if by == "tenant":
            return ("tenant", request.spec.tenant)
        session = request.spec.session
        return ("row", request.number) if session is None else ("session", session)

    def value(self, index: int, request: Request) -> float:
        """Return the number of a request's group now, one that falls to the nearest unit."""
        value = self._value(index, self.group(index, request))
        return (math.floor(value + 0.5) if self._half_life(index) else value) / UNITS

    def open(self, request: Request) -> None:
        """Begin the numbers of a request's groups, if they are new."""
        for index in range(len(self.rules)):
            self._units[index].setdefault(self.group(index, request), 0)

    def lift(self, request: Request, waiting: Iterable[Request]) -> None:
        """Lift the numbers of a request's groups in which no other request waits."""
        others = [one for one in waiting if one is not request]
        for index, rules in enumerate(self.rules):
            group = self.group(index, request)
            groups = [self.group(index, one) for one in others]
            if rules.get("lift", "none") == "none" or group in groups:
                continue
            bounds = [self._value(index, one) for one in groups]
            if not bounds and rules["lift"] == "waiting_or_last" and self.last is not None:
                bounds = [self._value(index, self.group(index, self.last))]
            if bounds and min(bounds) > self._value(index, group):
                self._set(index, group, min(bounds))

    def admitted(self, request: Request, *, first: bool, computes: int) -> None:
        """Charge a request that was admitted, and computes so many tokens if it has no KV."""
        for index, rules in enumerate(self.rules):
            when = rules["charges"]["when"]
            if first:
                self._charge(index, request, rules["charges"].get("request", 0))
            tokens = computes if when == "computed" else request.spec.prompt_tokens
            if when == "computed" or (when == "served" and first):
                self._charge(index, request, self._per_token(index, request)[0] * tokens)
        self._in_batch(request, 1)

    def yielded(self, request: Request) -> None:
        """Charge a token."""
        for index, rules in enumerate(self.rules):
            if rules["charges"]["when"] != "finished":
                self._charge(index, request, self._per_token(index, request)[1])

    def left_batch(self, request: Request, *, finished: bool) -> None:
        """Charge a request that was preempted, migrates or has finished."""
        self._in_batch(request, -1)
        for index, rules in enumerate(self.rules):
            if finished and rules["charges"]["when"] == "finished":
                prompt, output = self._per_token(index, request)
                self._charge(
                    index, request, prompt * request.spec.prompt_tokens + output * request.spec.output_tokens
                )

    def add_quanta(self) -> bool:
        """Add quanta round by round until one number more is above 0; return whether one was not."""
        behind = [
            (index, group)
            for index, rules in enumerate(self.rules)
            if rules.get("quantum", 0) > 0
            for group, units in self._units[index].items()
            if units <= 0
        ]
        while behind and all(self._units[index][group] <= 0 for index, group in behind):
            for index, group in behind:
                self._units[index][group] += self.rules[index]["quantum"]
        return bool(behind)

    def _in_batch(self, request: Request, sign: int) -> None:
        for index, rules in enumerate(self.rules):
            self._charge(index, request, sign * int(rules["charges"]["running"]))

    def _per_token(self, index: int, request: Request) -> tuple[int, int]:
        rules, (by, code) = self.rules[index], self.group(index, request)
        for own in rules.get("groups", []):
            if by != "row" and own["code"] == code:
                return own["prompt"], own["output"]
        return rules["charges"]["prompt"], rules["charges"]["output"]

    def _charge(self, index: int, request: Request, units: int) -> None:
        group = self.group(index, request)
        if units and self._half_life(index) and self.now > self._then[index].get(group, 0):
            self._set(index, group, self._value(index, group))
        self._units[index][group] = self._units[index].get(group, 0) + units

    def _set(self, index: int, group: Group, value: float) -> None:
        if self._half_life(index):
            self._units[index][group], self._rest[index][group] = 0, value
            self._then[index][group] = self.now
        else:
            self._units[index][group] = int(value)

    def _value(self, index: int, group: Group) -> float:
        units = self._units[index].get(group, 0)
        half_life = self._half_life(index)
        if not half_life:
            return units
        passed = self.now - self._then[index].get(group, 0)
        return (self._rest[index].get(group, 0.0) + units) * math.exp2(-(passed / half_life))

    def _half_life(self, index: int) -> int:
        half_life: int = self.rules[index].get("half_life", 0)
        return half_life


def reads_accumulator(expr: dict[str, Any]) -> bool:
    """Whether an expression reads an accumulator."""
    return expr.get("field") == "group.accumulated" or any(map(reads_accumulator, expr.get("args", [])))
