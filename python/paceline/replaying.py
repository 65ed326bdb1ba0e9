"""Replaying a trace: the function that everything else is about."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paceline import engine
from paceline.deployment import Cluster, Instance
from paceline.errors import ConfigError
from paceline.policies.vllm import vllm
from paceline.policy import Policy
from paceline.result import Result
from paceline.trace import Trace

if TYPE_CHECKING:
    from paceline._core import Progress

__all__ = ["replay"]


def replay(
    trace: Trace,
    cluster: Cluster,
    policy: Policy | None = None,
    *,
    until: float | None = None,
    leap: bool = True,
    progress: Callable[[Progress], object] | None = None,
) -> Result:
    """Replay a trace through a cluster under a policy.

    The same inputs give the same result, bit for bit, on any machine. Ctrl-C
    stops the replay within a few hundredths of a second.

    Parameters
    ----------
    trace
        What arrives.
    cluster
        What serves it.
    policy
        How; vLLM V1's scheduler if none is given.
    until
        Where the simulated time ends, in seconds from the trace's start. A
        request that is unfinished then says so; None: when all is done.
    leap
        Whether runs of equal steps are taken at once. It changes no bit of the
        result, only the time that the replay takes.
    progress
        Called at most ten times a second with the requests settled, their
        total, and the simulated time.

    Returns
    -------
    Result
        A row per request, and everything computed from those.

    Raises
    ------
    ConfigError
        If an instance or a setting cannot be used.
    ClockError
        If the simulated time runs past 186 days.

    Examples
    --------
    >>> import paceline
    >>> trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[100], output_tokens=[3])
    >>> cost = paceline.Affine(step_s=0.010, token_s=0.0, kv_token_s=0.0)
    >>> cluster = paceline.Cluster([paceline.Instance(cost=cost, num_blocks=101)])
    >>> result = paceline.replay(trace, cluster)
    >>> result.requests.select("ttft", "tpot", "e2e").row(0)
    (0.01, 0.01, 0.03)
    """
    policy = vllm() if policy is None else policy
    distinct = {instance: _wire(instance, policy) for instance in set(cluster.instances)}
    outcome = engine.run(
        [distinct[instance] for instance in cluster.instances],
        engine.columns(trace, policy.scheduler),
        routing=policy.on_arrival,
        until_ticks=_ticks("until", until),
        leap=leap,
        progress=progress,
    )
    settings = {"until": until, "leap": leap}
    return Result.from_outcome(
        trace=trace, cluster=cluster, policy=policy, outcome=outcome, settings=settings
    )


def _wire(instance: Instance, policy: Policy) -> dict[str, Any]:
    """Spell an instance and its scheduler out for the engine."""
    defaults = instance.default_batching()
    tokens, seqs = policy.scheduler.limits(defaults)
    wire = instance.to_wire(max_num_batched_tokens=tokens, max_num_seqs=seqs)
    # The engine counts usable blocks, vLLM's shares are of all, its null block included.
    scheduler = policy.scheduler.to_wire(num_blocks=wire["blocks"] + 1, defaults=defaults)
    return {**wire, "scheduler": scheduler}


def _ticks(name: str, seconds: float | None) -> int | None:
    if seconds is None:
        return None
    if not (math.isfinite(seconds) and 0 <= seconds < 16_000_000):
        raise ConfigError(f"{name} must be 0 or more seconds and below 16000000 (185 days), was {seconds}")
    return round(seconds * 1e12)
