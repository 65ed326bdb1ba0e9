"""Instances that change their pool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from paceline.testing.reference.policy_sim.expression import holds
from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.scope import View

Change = tuple[int, int, int, int, str, int | None]
"""Time, instance, pools before and after, cause, and the request that a rule was asked about."""


@dataclass(slots=True)
class Roles:
    """The pools of instances, which the replicas hold, and how they change.

    Attributes
    ----------
    replicas : list of Replica
    leaving : list of dict
        The pools of instances on their way, from the engine's configuration.
    due : dict of int to int
        When the delay of an instance ends, by its index.
    history : list of Change
    """

    replicas: list[Replica]
    leaving: list[dict[str, Any]]
    due: dict[int, int] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)

    def flip(self, index: int, to: int, keep: int, cause: tuple[str, int | None], now: int) -> bool:
        """Have an instance change its pool; return whether it is there then, or on its way."""
        leaves = self.bound(index)
        if leaves == to:
            return True
        if sum(self.bound(one.index) == leaves for one in self.replicas) - 1 < keep:
            return False
        present = self.replicas[index].role
        way = self._way(present)
        starts = (present,) if way is None else (way["from"], way["to"])
        ways = [one for start in starts for one in self.leaving if (one["from"], one["to"]) == (start, to)]
        held = [one for one in ways if one.get("delay", 0) > 0 or not self._done(one, index, now)]
        self._change(index, held[0]["role"] if held else to, *cause, now)
        return True

    def settle(self, now: int) -> None:
        """Let the instances join their pools of which the conditions hold."""
        for one in self.replicas:
            way = self._way(one.role)
            if way is not None and way.get("done") is not None and self._done(way, one.index, now):
                self._change(one.index, way["to"], "condition", None, now)

    def end_delays(self, now: int) -> None:
        """Let the instances join their pools of which the delays end now."""
        for index in sorted(index for index, due in self.due.items() if due == now):
            self._change(index, self.bound(index), "delay", None, now)

    # -- their parts ----------------------------------------------------------------------

    def _way(self, role: int) -> dict[str, Any] | None:
        return next((one for one in self.leaving if one["role"] == role), None)

    def bound(self, index: int) -> int:
        """Return the pool of an instance, or the one that it is on its way to."""
        role = self.replicas[index].role
        way = self._way(role)
        return role if way is None else int(way["to"])

    def _done(self, way: dict[str, Any], index: int, now: int) -> bool:
        done = way.get("done")
        return done is None or holds(done, View(now, self.replicas, inst=self.replicas[index]))

    def _change(self, index: int, role: int, cause: str, request: int | None, now: int) -> None:
        self.history.append((now, index, self.replicas[index].role, role, cause, request))
        self.replicas[index].role = role
        self.due.pop(index, None)
        way = self._way(role)
        if way is not None and way.get("delay") is not None:
            self.due[index] = now + way["delay"]
