"""Instances that serve, are off, start, or finish their requests: what autoscalers have in common."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.policies.vllm import vllm
from paceline.policy import Policy, Pools, Scheduler, fewest_requests, first_of, inst
from paceline.policy.wire import Action

__all__ = ["PRESENT", "switched"]

PRESENT = ("serving", "off→serving")
"""The instances that serve, and those that start."""


def switched(
    name: str,
    every: Sequence[tuple[float, Sequence[Action]]],
    *,
    serving: int,
    off: int,
    start_s: float,
    scheduler: Scheduler | None,
) -> Policy:
    """Return a policy whose monitors start instances of the pool ``off``, and stop those of ``serving``.

    An instance that starts is in ``off→serving`` for `start_s`; one that stops is in ``serving→off`` until
    its last request has ended, and gets no others. A request goes to the serving instance with the fewest.
    """
    return Policy(
        name=name,
        scheduler=vllm().scheduler if scheduler is None else scheduler,
        pools=Pools(
            serving=serving,
            off=off,
            leaving={"off→serving": start_s, "serving→off": inst.requests == 0},
            switched_off="off",
        ),
        on_arrival=first_of(fewest_requests(within="serving"), fewest_requests(within=PRESENT)),
        every=tuple((seconds, tuple(actions)) for seconds, actions in every),
    )
