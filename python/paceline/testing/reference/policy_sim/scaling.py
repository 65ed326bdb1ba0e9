"""Monitors that set the size of a pool, from all that was read before."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import takewhile
from typing import Any, TypeVar

from paceline.testing.reference.policy_sim.expression import evaluate, holds, sort_keys
from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.roles import Roles
from paceline.testing.reference.policy_sim.scope import View

_T = TypeVar("_T")


class Scaling:
    """An action that sets the size of a pool, and everything that it ever read, wanted and changed."""

    def __init__(self, action: dict[str, Any], roles: Roles) -> None:
        self._action, self._roles = action, roles
        self._read: list[tuple[int, float]] = []
        self._wanted: list[tuple[int, int]] = []
        self._changes: list[tuple[int, int]] = []

    def act(self, view: View) -> None:
        """Have instances start or stop at the moment of the view."""
        action, now = self._action, view.now
        if not holds(action["when"], view):
            return
        value = evaluate(action["wanted"], view)
        if math.isnan(value):
            return
        self._read.append((now, value))
        present = [one for one in view.replicas if self._roles.bound(one.index) == action["pool"]]
        size = self._size(len(present), now)
        if size > len(present):
            idle = [one for one in view.replicas if one.role == action["off"]]
            chosen = self._sorted(action["start"], idle, view)[: size - len(present)]
            to = action["pool"]
        else:
            best = self._sorted(action["stop"], present, view)
            starting = [one for one in best if one.role != action["pool"]]
            others = [one for one in best if one.role == action["pool"]]
            chosen = [*starting, *others][: len(present) - size]
            to = action["off"]
        for one in chosen:
            self._roles.flip(one.index, to, 0, ("every", None), now)
        self._changes.append((now, len(chosen) if to == action["pool"] else -len(chosen)))

    def _size(self, present: int, now: int) -> int:
        """Return the size that a pool is to have."""
        action = self._action
        read = _since(self._read, action["averaged"], now)
        total = 0.0
        for value in read:
            total += value
        mean = total / len(read)
        if math.isnan(mean):
            return present
        least: int = action["least"]
        most: int = len(self._roles.replicas) + least if action["most"] is None else action["most"]
        wanted = most if mean >= most else max(least, math.ceil(mean)) if mean > least else least
        self._wanted.append((now, wanted))
        larger = min(_since(self._wanted, action["up"]["window"], now))
        smaller = max(_since(self._wanted, action["down"]["window"], now))
        if present < larger:
            return self._limited(larger, present, now, 1)
        if present > smaller:
            return self._limited(smaller, present, now, -1)
        return present

    def _limited(self, size: int, present: int, now: int, sign: int) -> int:
        """Return a size as far as the limits of its direction allow it: 1 to grow, -1 to shrink."""
        rules = self._action["up" if sign > 0 else "down"]
        allowed = []
        for limit in rules["limits"]:
            before = max(0, present - sum(_since(self._changes, limit["per"], now)))
            ((kind, amount),) = limit["by"].items()
            if kind == "instances":
                reached = before + sign * amount
            else:
                hundredths = before * (100 + sign * amount)
                reached = -(-hundredths // 100) if sign > 0 else hundredths // 100
            allowed.append(max(0, sign * (reached - present)))
        if not allowed:
            return size
        change: int = max(allowed) if rules["select"] == "most" else min(allowed)
        return present + sign * min(change, abs(size - present))

    @staticmethod
    def _sorted(choice: dict[str, Any], among: list[Replica], view: View) -> list[Replica]:
        """Sort the instances that a choice allows."""
        seen = {one.index: replace(view, inst=one, here=one) for one in among}
        allowed = [one for one in among if holds(choice["where"], seen[one.index])]
        return sorted(allowed, key=lambda one: (*sort_keys(choice["min"], seen[one.index]), one.index))


def _since(entries: list[tuple[int, _T]], window: int, now: int) -> list[_T]:
    """Return what was noted in a window in order, that of this moment in any case."""
    recent = takewhile(lambda entry: now - entry[0] < max(window, 1), reversed(entries))
    return [value for _, value in recent][::-1]
