"""The dispatch policies of Llumnix, and the metrics by which it compares instances."""

from __future__ import annotations

from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Expr, Rule, inst, maximum, pick, where

__all__ = ["Dispatch", "LoadMetric", "llumnix_dispatch", "remaining_steps"]

Dispatch = Literal["load", "queue", "balanced", "rr"]
"""``load``: by a metric; ``queue``: fewest waiting; ``balanced``: fewest ever sent; ``rr``: in turn."""

LoadMetric = Literal["remaining_steps", "kv_blocks_ratio", "miss_waiting_tokens", "adaptive_decode"]
"""How instances are compared under ``load``.

``remaining_steps``: steps until the free blocks are used up, the most. ``kv_blocks_ratio``:
blocks in use and of waiting requests over all, the least. ``miss_waiting_tokens``: tokens
of waiting requests, the least. ``adaptive_decode``: 128 less the decoding requests, so that
those are packed, or their number from 128 on; the least.
"""

_IDLE = 1e9
"""Steps left on an instance without requests: more than on any other."""

_DECODES = 128
"""Decoding requests up to which ``adaptive_decode`` packs them."""


@typed(PolicyError)
def remaining_steps(*, defrag: bool = True, free: Expr = inst.free_blocks) -> Expr:
    """Return for how many steps the memory of an instance lasts.

    Parameters
    ----------
    defrag
        Whether only the head of the queue counts; False: all queued requests do.
    free
        The free blocks.
    """
    queued = inst.head_blocks if defrag else inst.waiting_blocks
    sharing = inst.running + (where(inst.waiting > 0, 1, 0) if defrag else inst.waiting)
    return where(inst.requests == 0, _IDLE, (free - queued) / maximum(sharing, 1))


@typed(PolicyError)
def llumnix_dispatch(
    dispatch: Dispatch = "load",
    *,
    metric: LoadMetric = "remaining_steps",
    defrag: bool = True,
    free: Expr = inst.free_blocks,
    total: Expr | int = inst.total_blocks,
) -> Rule:
    """Return the rule of a dispatch policy and metric.

    Parameters
    ----------
    dispatch, metric
        See `Dispatch` and `LoadMetric`.
    defrag
        As of `remaining_steps`.
    free, total
        The free blocks and all blocks.

    Notes
    -----
    Source: AlibabaPAI/llumnix (24220fb8), ``llumnix/global_scheduler/dispatch_policy.py``
    and ``load_computation.py``. The source passes over busy instances unless all are; with
    one metric for both, that never changes the choice, and is left out. Among equals
    ``remaining_steps`` picks the last instance, as there, all others the first.
    """
    if dispatch == "rr":
        return "round_robin"
    if dispatch == "queue":
        return pick(min=inst.waiting)
    if dispatch == "balanced":
        return pick(min=inst.routed_ever)
    if metric == "remaining_steps":
        return pick(max=remaining_steps(defrag=defrag, free=free), ties="last")
    if metric == "kv_blocks_ratio":
        return pick(min=(total - free + inst.waiting_blocks) / total)
    if metric == "miss_waiting_tokens":
        return pick(min=inst.outstanding_tokens - inst.running_tokens)
    decodes = inst.answering_requests
    return pick(min=where(decodes == 0, _DECODES, where(decodes >= _DECODES, decodes, _DECODES - decodes)))
