"""Routing rules, from the engine's configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Any

from paceline.testing.reference.policy_sim.expression import holds, sort_keys
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.scope import View

Flip = Callable[[int, dict[str, Any], View], bool]
"""Has an instance change its pool as a rule says; returns whether it is there then, or on its way."""


class AtRouter(Enum):
    """What a rule decides that sends an arriving request nowhere; held, it blocks none or others."""

    HOLD = "none"
    HOLD_ALL = "all"
    HOLD_TENANT = "tenant"
    HOLD_SESSION = "session"
    REJECT = "reject"


class Rule:
    """A rule of one router, with what it remembers: where round robin continues, and where ties begin.

    ``begin`` is where ties begin at first that differ by router.
    """

    def __init__(self, wire: dict[str, Any], flip: Flip, begin: int = 0) -> None:
        self._wire, self._flip = wire, flip
        self._parts = [Rule(one, flip, begin) for one in wire.get("rules", [])]
        self._parts += [Rule(wire["of"], flip, begin)] if "of" in wire else []
        self._next = begin if wire.get("ties") in ("rotate", "spread") else 0

    def decide(self, view: View, able: list[int]) -> int | AtRouter | None:
        """Pick one of the instances that are ``able`` to serve the request, hold or reject it, or None."""
        kind = self._wire["rule"]
        if kind == "first_of":
            decisions = (part.decide(view, able) for part in self._parts)
            return next((decision for decision in decisions if decision is not None), None)
        if kind == "hold":
            return AtRouter(self._wire.get("blocks", "none"))
        if kind == "reject":
            return AtRouter.REJECT if holds(self._wire["when"], view) else None
        if kind == "when":
            return self._parts[0].decide(view, able) if holds(self._wire["when"], view) else None
        return self.pick(view, able)

    def pick(self, view: View, able: list[int]) -> int | None:
        """Pick one of the instances that are ``able`` to serve the request, or None."""
        kind = self._wire["rule"]
        if kind == "first_of":
            picks = (part.pick(view, able) for part in self._parts)
            return next((picked for picked in picks if picked is not None), None)
        if kind == "owner":
            assert view.books is not None
            assert view.request is not None
            owner = view.books.owner(view.request, self._wire["above"], self._wire.get("within"))
            return owner if owner in able else None
        if kind == "stay":
            stays = view.here is not None and holds(self._wire["when"], view)
            return view.here.index if view.here and stays else None
        if kind == "unless":
            picked = self._parts[0].pick(view, able)
            if picked is None:
                return None
            there = view.replicas[picked]
            return None if holds(self._wire["when"], replace(view, inst=there, there=there)) else picked
        if kind == "when":
            return self._parts[0].pick(view, able) if holds(self._wire["when"], view) else None
        if kind == "flip":
            picked = self._parts[0].pick(view, able)
            flipped = picked is not None and self._flip(picked, self._wire, view)
            return picked if flipped and self._wire.get("picks", True) else None
        if kind == "pick":
            return self._pick(view, able)
        within = self._wire.get("within")
        able = [index for index in able if within is None or view.replicas[index].role in within]
        if kind in ("fewest_requests", "fewest_tokens") and view.routers and view.routers.every is not None:
            name = "requests" if kind == "fewest_requests" else "outstanding_tokens"
            return min(
                able, key=lambda index: replace(view, inst=view.replicas[index]).field(f"inst.{name}", None)
            )
        picked = min(able, key=lambda index: self._load(kind, view, index), default=None)
        if kind == "round_robin" and picked is not None:
            self._next = (picked + 1) % len(view.replicas)
        return picked

    def _pick(self, view: View, able: list[int]) -> int | None:
        views = {one.inst.index: one for one in view.each(self._wire["within"]) if one.inst}
        allowed = [index for index in views if index in able]
        if self._wire.get("among") is not None:
            assert view.routers
            assert view.request
            draws = view.routers.draws[view.decode][view.routers.router_of(view.request.number)]
            allowed = draws.sample(allowed, self._wire["among"])
        of_each = {index: views[index] for index in allowed if holds(self._wire["where"], views[index])}
        picked = self._preferred(of_each, view)
        if picked is None or not holds(self._wire["accept"], of_each[picked]):
            return None
        n, ties = len(view.replicas), self._wire.get("ties")
        self._next = {"next": picked + 1, "rotate": self._next + 1}.get(str(ties), self._next) % n
        return picked

    def _preferred(self, of_each: dict[int, View], view: View) -> int | None:
        """Return the lowest instance that the ties of a pick prefer."""
        least = min((sort_keys(self._wire["min"], one) for one in of_each.values()), default=None)
        equal = [index for index, one in of_each.items() if sort_keys(self._wire["min"], one) == least]
        match self._wire.get("ties", "first") if equal else None:
            case None:
                return None
            case "last":
                return equal[-1]
            case "next" | "rotate" | "spread":
                return min(equal, key=lambda index: (index - self._next) % len(view.replicas))
            case "random" if len(equal) > 1:
                assert view.routers
                assert view.request
                draws = view.routers.draws[view.decode][view.routers.router_of(view.request.number)]
                return equal[draws.below(len(equal))]
        return equal[0]

    def _load(self, kind: str, view: View, index: int) -> int:
        requests: list[Request] = view.replicas[index].requests
        if kind == "fewest_requests":
            return len(requests)
        if kind == "fewest_tokens":
            return sum(request.tokens for request in requests)
        return (index - self._next) % len(view.replicas)
