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


def idle_ticks(config: dict[str, Any], replicas: list[Replica]) -> int:
    """Return the time of a step in which no instance has work: each takes part with one token."""
    slowest = max(replica.prefill_ticks(TraceRequest(0, 1, 0)) for replica in replicas)
    return slowest + on_curve(config["shared"], len(replicas))


def ticks_together(config: dict[str, Any], replicas: list[Replica]) -> int | None:
    """Return the time of the step that all have just formed; None if no instance has work.

    It is the time of the slowest instance, plus the shared part by the tokens of all. An instance without
    work takes part with one token. Up to ``padded`` tokens, all compute as many as the one with most.
    """
    steps = [replica.step for replica in replicas]
    if not any(steps):
        return None
    tokens = [1 if step is None else sum(step.tokens.values()) for step in steps]
    computed = max(tokens) * len(tokens) if max(tokens) <= config["padded"] else sum(tokens)
    slowest = max(replica.ticks for replica in replicas if replica.step is not None)
    return slowest + on_curve(config["shared"], computed)
