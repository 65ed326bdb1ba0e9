"""A replay through the reference simulator for policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.testing.reference.clock import run
from paceline.testing.reference.policy_sim.cluster import Cluster
from paceline.testing.reference.policy_sim.outcome import Outcome
from paceline.testing.reference.policy_sim.request import TraceRequest

__all__ = ["replay"]


def replay(
    config: dict[str, Any],
    requests: Sequence[TraceRequest],
    *,
    prefix_block_tokens: int | None = None,
    most_steps: int = 100_000,
) -> Outcome:
    """Replay requests through a cluster under a policy, one step at a time.

    Parameters
    ----------
    config : dict
        What the engine reads (see ``rust/core/src/config/``), of a composition that is covered
        (:func:`~paceline.testing.reference.policy_sim.covers`); ``leap`` and ``record_decisions`` make
        no difference.
    requests : sequence of TraceRequest
        Sorted by arrival.
    prefix_block_tokens : int, optional
        Tokens in a block of the requests' ``prefix``; by default as many as in each instance's.
    most_steps : int
        Steps after which the replay is stopped: under some policies no request ever finishes.

    Returns
    -------
    Outcome

    Raises
    ------
    Stuck
        If requests wait that no event can ever make run.
    NoEnd
        If there are more than ``most_steps`` steps.

    Examples
    --------
    >>> instance = {
    ...     "blocks": 8, "block_tokens": 16, "max_model_len": None,
    ...     "cost": {"kind": "affine", "step": 10, "token": 1, "kv_token": 0},
    ...     "scheduler": {
    ...         "max_num_batched_tokens": 64, "max_num_seqs": 4, "long_prefill_token_threshold": 0,
    ...         "threshold_when_alone": False, "exclusive_prefill": False, "order": {"kind": "arrival"},
    ...         "stages": [
    ...             {"kind": "running"},
    ...             {"kind": "admit", "chunked": True, "unless_preempted": True, "unless_swapped": False,
    ...              "count_decodes": True, "gather": None},
    ...         ],
    ...         "victim": "latest", "allocation": "chunk", "watermark_blocks": 0,
    ...         "watermark_when_idle": False, "spare_block": False, "decodes_first": False, "refund": True,
    ...         "stop_at_own_preemption": False, "preemption": {"kind": "recompute"},
    ...         "requeue_late": False, "prefix_cache": None, "schedule_ahead": False,
    ...     },
    ... }
    >>> rules = {"on_prefilled": None, "on_answering": None, "every": []}
    >>> rules["on_arrival"] = {"rule": "round_robin"}
    >>> outcome = replay({"instances": [instance], "routing": rules, "until": None}, [TraceRequest(0, 20, 3)])
    >>> outcome.requests[0].token_times
    [30, 41, 52]
    """
    cluster = Cluster(config, requests, prefix_block_tokens, most_steps)
    run(cluster, config["until"])
    cluster.end()
    return cluster.outcome
