"""The order of a ranked queue: classes, keys within them, and when they are evaluated again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from paceline.testing.reference.policy_sim.accumulators import Accumulators, reads_accumulator
from paceline.testing.reference.policy_sim.expression import (
    Expr,
    Scope,
    SortKey,
    evaluate,
    holds,
    sort_key,
    sort_keys,
    timely,
)
from paceline.testing.reference.policy_sim.request import Request

_LAST_LEVEL = 63


@dataclass(slots=True)
class OfGroups:
    """The numbers of a request's groups, as expressions read them."""

    accumulators: Accumulators
    request: Request

    @property
    def now(self) -> int:
        """The latest moment of the accumulators."""
        return self.accumulators.now

    def field(self, name: str, position: int | None) -> float:
        """Return the number of a group; ``position`` is the accumulator."""
        assert name == "group.accumulated", name
        assert position is not None
        return self.accumulators.value(position, self.request)

    def each(self, within: list[int] | None) -> Iterator[Scope]:
        """Go over no instance."""
        return iter(())


class Ranking:
    """Ranks requests by (class, keys, row of the trace), smallest first.

    Parameters
    ----------
    order : dict
        ``classes`` (``when``, ``hold``, ``keys``), ``quantum`` and ``refresh``, as configured.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self.classes: list[dict[str, Any]] = order["classes"]
        refresh: dict[str, int] = order.get("refresh", {})
        self.quantum: int = order.get("quantum", 0)
        self.every_steps = refresh.get("steps", 0)
        self.every_ticks = refresh.get("ticks", 0)
        self._refreshes = self.every_steps > 0 or self.every_ticks > 0
        self._levels: dict[str, Any] | None = order.get("levels")
        self._last_start = 0
        self.accumulators = Accumulators(order.get("accumulators", []))
        self._admits: Expr | None = order.get("admits")
        self._class_is_timely = any(timely(one.get("when")) for one in self.classes)
        self._accumulates = bool(order.get("accumulators"))
        self._drifts = [any(map(timely, one["keys"])) for one in self.classes]

    def rank(self, request: Request) -> tuple[int | None, tuple[SortKey, ...], int]:
        """Return the rank of a request; no two requests have equal ranks."""
        if not self._accumulates:
            return request.position, request.keys, request.number
        scope = OfGroups(self.accumulators, request)
        keys = tuple(
            sort_key(evaluate(expr, scope)) if reads_accumulator(expr) else key
            for expr, key in zip(self._keys(request), request.keys, strict=True)
        )
        return request.position, keys, request.number

    def admits(self, request: Request) -> bool:
        """Whether the accumulators let a request be admitted."""
        return holds(self._admits, OfGroups(self.accumulators, request))

    def quanta(self, request: Request) -> int:
        """Quanta of tokens that a request has used up in its class."""
        return (request.generated - request.joined_tokens) // self.quantum if self.quantum else 0

    def enter(self, request: Request, scope: Scope) -> None:
        """Rank a request that arrives or has migrated here."""
        request.position = None
        if self._levels is not None:
            entry = evaluate(self._levels["entry"], scope)
            request.level = int(min(max(entry, 0), _LAST_LEVEL)) if entry == entry else 0
            request.level_from = request.attained
        self.classify(request, scope)
        self.evaluate(request, scope)

    def classify(self, request: Request, scope: Scope) -> bool:
        """Find a request's class again; return whether it changed."""
        if request.position is not None and request.position < len(self.classes):
            hold = self.classes[request.position].get("hold", 0)
            if hold and request.generated - request.joined_tokens < hold:
                return False
            if request.steps_run - request.joined_steps < self.classes[request.position].get("hold_steps", 0):
                return False
        last = len(self.classes)
        position = next((i for i in range(last) if holds(self.classes[i].get("when"), scope)), last)
        if position == request.position:
            return False
        request.position = position
        request.joined, request.joined_tokens = scope.now, request.generated
        request.joined_steps = request.steps_run
        return True

    def evaluate(self, request: Request, scope: Scope) -> None:
        """Evaluate a request's keys."""
        # What reads accumulators is evaluated where ranks are compared.
        keys = self._keys(request)
        if self._accumulates:
            keys = [{"const": 0.0} if reads_accumulator(key) else key for key in keys]
        request.keys = sort_keys(keys, scope)

    def moved(self, request: Request, scope: Scope) -> None:
        """Rank a request that was admitted or preempted."""
        self.classify(request, scope)
        self.evaluate(request, scope)

    def ran(self, request: Request, scope: Scope) -> None:
        """Rank a request at the end of a step that ran it."""
        if self._levels is not None and request.level < _LAST_LEVEL:
            attained = request.attained + scope.now - request.admitted_at
            if attained - request.level_from > self._levels["first"] << request.level:
                request.level, request.level_from = request.level + 1, attained
        if self.classify(request, scope) or not self._refreshes:
            self.evaluate(request, scope)

    def promote(
        self, requests: list[Request], scope_of: Callable[[int, Request], Scope], now: int, steps: int
    ) -> None:
        """Move idle requests to the first level, before a step is formed after ``steps`` of the instance."""
        levels = self._levels or {}
        every, condition = levels.get("every", 0), levels.get("promote")
        if condition is None or every == 0 or steps == 0 or steps % every:
            return
        for request in requests:
            scope = scope_of(now, request)
            if request.idle and request.level > 0 and holds(condition, scope):
                request.level = 0
                if self.classify(request, scope) or not self._refreshes:
                    self.evaluate(request, scope)

    def start(
        self, requests: list[Request], scope_of: Callable[[int, Request], Scope], now: int, steps: int
    ) -> None:
        """Rank all requests at the start of a step, after ``steps`` steps of the instance."""
        refresh = self.every_steps > 0 and steps % self.every_steps == 0
        if self.every_ticks > 0:
            refresh |= now // self.every_ticks > self._last_start // self.every_ticks
        self._last_start = now
        for request in requests:
            changed = self._class_is_timely and self.classify(request, scope_of(now, request))
            drifts = not self._refreshes and self._is_in(request, self._drifts)
            if changed or drifts or refresh:
                self.evaluate(request, scope_of(now, request))

    def _is_in(self, request: Request, classes: list[bool]) -> bool:
        """Whether a request is in one of some classes."""
        assert request.position is not None
        return request.position < len(classes) and classes[request.position]

    def _keys(self, request: Request) -> list[dict[str, Any]]:
        assert request.position is not None
        return self.classes[request.position]["keys"] if request.position < len(self.classes) else []
