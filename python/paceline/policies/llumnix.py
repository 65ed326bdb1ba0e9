"""Llumnix' dispatch and migration."""

from __future__ import annotations

from dataclasses import replace

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.llumnix_dispatch import Dispatch, LoadMetric, llumnix_dispatch, remaining_steps
from paceline.policies.vllm_v0 import vllm_v0
from paceline.policy import Live, Policy, Scheduler, migrate, pick, req

__all__ = ["llumnix"]


@typed(PolicyError)
def llumnix(
    *,
    scheduler: Scheduler | None = None,
    dispatch: Dispatch = "load",
    metric: LoadMetric = "remaining_steps",
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
    dispatch
        Where requests are routed: by `metric` (``load``), to the fewest waiting
        (``queue``), to the fewest sent there ever (``balanced``), or in turn (``rr``).
    metric
        The load by which ``load`` compares instances, see
        `paceline.policies.llumnix_dispatch`.
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
    decodes). The engine makes every decision in the logs of that code under
    ``tests/conformance/logs/routers/llumnix_*`` by the same dispatch rules. The source
    passes over busy instances unless all are (fewer than ten steps left); with one metric
    for both, that never changes the choice. A request that migrates frees its blocks at the
    source. Differences: no blocks are reserved at the target, where a request that does not fit
    waits, and in the source stays where it is; an instance may be in several migrations at a
    time, and in the source in one, so that under load a longer period comes nearer to it; an
    instance does not migrate requests because it preempted some; routers see instances as they
    are now, where the source polls them every 50 ms (``replace(policy, reports=Reports(every=0.05))``).
    """
    left = remaining_steps(defrag=defrag)
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
        on_arrival=llumnix_dispatch(dispatch, metric=metric, defrag=defrag),
        every={period_s: [move]} if migration else {},
        # With one, a request would hold blocks of its source while it waits for those of its target.
        handover=None,
    )
