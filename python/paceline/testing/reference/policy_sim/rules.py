"""Routing rules, from the engine's configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from paceline.testing.reference.policy_sim.expression import holds, values
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.scope import View

Flip = Callable[[int, dict[str, Any], View], bool]
"""Has an instance change its pool as a rule says; returns whether it is there then, or on its way."""


class Rule:
    """A rule, with the state of round robin.

    Round robin continues after the instance that it picked last; the other rules have no state.
    """

    def __init__(self, wire: dict[str, Any], flip: Flip) -> None:
        self._wire, self._flip = wire, flip
        self._parts = [Rule(one, flip) for one in wire.get("rules", [])]
        self._parts += [Rule(wire["of"], flip)] if "of" in wire else []
        self._next = 0

    def pick(self, view: View, able: list[int]) -> int | None:
        """Pick one of the instances that are ``able`` to serve the request, or None."""
        kind = self._wire["rule"]
        if kind == "first_of":
            picks = (part.pick(view, able) for part in self._parts)
            return next((picked for picked in picks if picked is not None), None)
        if kind == "owner":
            assert view.books is not None and view.request is not None
            owner = view.books.owner(view.request, self._wire["above"])
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
        picked = min(able, key=lambda index: self._load(kind, view, index), default=None)
        if kind == "round_robin" and picked is not None:
            self._next = (picked + 1) % len(view.replicas)
        return picked

    def _pick(self, view: View, able: list[int]) -> int | None:
        of_each = {
            one.inst.index: one
            for one in view.each(self._wire["within"])
            if one.inst and one.inst.index in able and holds(self._wire["where"], one)
        }
        picked = min(of_each, key=lambda index: values(self._wire["min"], of_each[index]), default=None)
        return picked if picked is not None and holds(self._wire["accept"], of_each[picked]) else None

    def _load(self, kind: str, view: View, index: int) -> int:
        requests: list[Request] = view.replicas[index].requests
        if kind == "fewest_requests":
            return len(requests)
        if kind == "fewest_tokens":
            return sum(request.tokens for request in requests)
        return (index - self._next) % len(view.replicas)
