"""Llumnix' dispatch and migration."""

from __future__ import annotations

from dataclasses import replace

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm_v0 import vllm_v0
from paceline.policy import Live, Policy, Scheduler, first_of, inst, maximum, migrate, pick, req, where

__all__ = ["llumnix"]

IDLE = 1e9
"""Steps left on an instance without requests: more than on any other."""


@typed(PolicyError)
def llumnix(
    *,
    scheduler: Scheduler | None = None,
    busy_below: float = 10.0,
    migrate_below: float = -3.0,
    period_s: float = 0.05,
    defrag: bool = True,
    migration: bool = True,
    stages: int = 3,
    last_blocks: int = 16,
) -> Policy:
    """Route requests to where memory lasts longest, and migrate running ones from where it has run out.

    How long memory lasts is measured in steps: the free blocks, less those that
    the head of the queue needs, over the requests that share them.

    Parameters
    ----------
    scheduler
        How instances form their steps; None: as vLLM 0.6.1.
    busy_below
        Steps left below which an instance gets arrivals only if all instances
        are below it.
    migrate_below
        Steps left up to which an instance is a source of migrations, and from
        which on it is a target.
    period_s
        Seconds between two evaluations of the monitor.
    defrag
        Whether only the head of the queue counts; False: all queued requests do,
        as in the code without its option ``defrag``.
    migration
        Whether requests migrate; by the code's default they do not.
    stages, last_blocks
        How a request's KV is copied while it runs: in at most so many stages, of
        which the last begins as soon as at most ``last_blocks`` are left to copy.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> llumnix(migration=False).every
    ()

    Notes
    -----
    Source: Sun et al., "Llumnix: Dynamic Scheduling for Large Language Model
    Serving" (OSDI 2024); AlibabaPAI/llumnix (24220fb8), dispatch ``load`` by
    ``remaining_steps``, pairs ``defrag``, requests ``SR`` (the shortest that
    decodes). Difference: an instance does not migrate requests because it
    preempted some.
    """
    queued = inst.head_blocks if defrag else inst.waiting_blocks
    sharing = inst.running + (where(inst.waiting > 0, 1, 0) if defrag else inst.waiting)
    left = where(inst.requests == 0, IDLE, (inst.free_blocks - queued) / maximum(sharing, 1))
    move = migrate(
        source=pick(min=left, where=left <= migrate_below),
        target=pick(max=left, where=left >= migrate_below),
        choose=pick(min=req.context_tokens, where=req.running & (req.phase != "prefill")),
        live=Live(stages=stages, last_blocks=last_blocks),
    )
    base = vllm_v0() if scheduler is None else replace(vllm_v0(), scheduler=scheduler)
    return replace(
        base,
        name="llumnix",
        on_arrival=first_of(pick(max=left, where=left >= busy_below), pick(max=left)),
        every={period_s: [move]} if migration else {},
    )
