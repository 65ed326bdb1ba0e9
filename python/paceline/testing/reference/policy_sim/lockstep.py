"""Instances that start their steps together, and share a part of each."""

from __future__ import annotations

from typing import Any

from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.request import TraceRequest


def on_curve(curve: dict[str, list[int]], at: int) -> int:
    """Return the value of the line through points, rounded down, never below 0; at 0 it is 0.

    Before the first point it is constant; past the last one the last segment is continued.

    Examples
    --------
    >>> curve = {"at": [2, 3, 7], "ticks": [10, 20, 22]}
    >>> [on_curve(curve, at) for at in (0, 1, 2, 3, 4, 7, 9, 10)]
    [0, 10, 10, 20, 20, 22, 23, 23]
    """
    x, y = curve["at"], curve["ticks"]
    if at == 0:
        return 0
    if at <= x[0] or len(x) == 1:
        return max(y[0], 0)
    left = max(i for i in range(len(x) - 1) if x[i] <= at)
    return max(y[left] + (y[left + 1] - y[left]) * (at - x[left]) // (x[left + 1] - x[left]), 0)


class Balance:
    """Prompts that wait until all instances have one, or for a number of steps.

    Parameters
    ----------
    rule : dict or None
        ``timeout_steps`` and ``gather_steps``; None: no prompt waits.
    """

    def __init__(self, rule: dict[str, int] | None) -> None:
        self._rule = rule
        self._lacking = self._gathering = 0
        self._then = (0, 0)

    def hold(self, replicas: list[Replica], now: int) -> None:
        """Decide whether the instances hold prompts back in the step that they form next."""
        if self._rule is None:
            return
        lacking, gathering = self._lacking, self._gathering
        prospects = [replica.scheduler.prospect(now) for replica in replicas]
        all_decode = all(decodes for _, decodes in prospects)
        if all(prompts for prompts, _ in prospects):
            lacking = 0
            held = all_decode and gathering < self._rule["gather_steps"]
            if all_decode:
                gathering = gathering + 1 if held else 0
        else:
            lacking += 1
            held = all_decode and lacking < self._rule["timeout_steps"]
            lacking = lacking if held else 0
        for replica in replicas:
            replica.scheduler.state.held_together = held
        self._then = lacking, gathering

    def count(self) -> None:
        """Count the step that was decided, as it starts."""
        self._lacking, self._gathering = self._then


class Group:
    """Instances that step together.

    Parameters
    ----------
    config : dict
        The group of the configuration that the engine reads.
    replicas : list of Replica
        All instances of the cluster.

    Attributes
    ----------
    members : list of Replica
        Its instances, in the order of the cluster.
    number : int
        Steps that have ended.
    idle_until : int or None
        When the step ends in which no member has work, if they are in one.
    """

    def __init__(self, config: dict[str, Any], replicas: list[Replica]) -> None:
        self._config = config
        self.members = [replica for replica in replicas if replica.index in config["members"]]
        self.number = 0
        self.idle_until: int | None = None
        self._balance = Balance(config.get("balance"))
        self._in_step = False
        self._since_idle = 0

    @property
    def may_start(self) -> bool:
        """Whether no member is in a step."""
        return self.idle_until is None and not any(one.step for one in self.members)

    def step_ends(self, now: int) -> bool:
        """Whether the common step ends at a moment, which may be one without requests."""
        ends = self.idle_until is None or self.idle_until <= now
        return self._in_step and ends and not any(one.step for one in self.members)

    def end_step(self, now: int) -> None:
        """End the common step; where the members agree on that, they stop if none has a request."""
        if not self.step_ends(now):
            return
        self._in_step, self.idle_until = False, None
        self._since_idle += 1
        self.number += 1
        sync = self._config.get("sync")
        agrees = sync is None or self._since_idle % sync["every"] == 0
        if sync is not None and sync["first"] and self._since_idle == 1:
            agrees = True
        if agrees and not any(one.requests for one in self.members):
            self._since_idle = 0

    def hold(self, now: int) -> None:
        """Decide whether the members hold prompts back in the step that they form next."""
        self._balance.hold(self.members, now)

    def begin(self, now: int) -> None:
        """Begin the step that all members have formed."""
        ticks = self._ticks()
        for replica in self.members:
            replica.begin(now, ticks)
        if ticks is not None:
            self._in_step = True
            self._balance.count()
        elif self._config.get("sync") is not None and self._since_idle > 0:
            self._in_step = True
            self.idle_until = now + self._idle_ticks()

    def _idle_ticks(self) -> int:
        """Return the time of a step in which no member has work: each takes part with one token."""
        slowest = max(replica.prefill_ticks(TraceRequest(0, 1, 0)) for replica in self.members)
        return slowest + on_curve(self._config["shared"], len(self.members))

    def _ticks(self) -> int | None:
        """Return the time of the step that all have just formed; None if no member has work.

        It is the time of the slowest member, plus the shared part by the tokens of all. A member without
        work takes part with one token. Up to ``padded`` tokens, all compute as many as the one with most.
        With prompt tokens on any member, it is at least ``prompts``.
        """
        steps = [replica.step for replica in self.members]
        if not any(steps):
            return None
        tokens = [1 if step is None else sum(step.tokens.values()) for step in steps]
        computed = max(tokens) * len(tokens) if max(tokens) <= self._config["padded"] else sum(tokens)
        slowest = max(replica.ticks for replica in self.members if replica.step is not None)
        least = self._config.get("prompts", 0) if any(step and step.prefills for step in steps) else 0
        return max(slowest + on_curve(self._config["shared"], computed), least)
