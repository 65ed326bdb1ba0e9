"""The KV router of NVIDIA Dynamo."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.dynamo_tracking import DynamoTracking
from paceline.policy import (
    ActiveBlocks,
    Expr,
    Policy,
    PrefixIndex,
    Scheduler,
    cluster,
    inst,
    maximum,
    pick,
    req,
)

__all__ = ["dynamo", "dynamo_cost"]


@typed(PolicyError)
def dynamo_cost(
    *,
    block_tokens: int = 16,
    overlap_score_credit: float = 1.0,
    overlap_score_credit_decay: float = 0.0,
    prefill_load_scale: float = 1.0,
    decode_active_request_weight: float = 0.0,
    track_prefill_tokens: bool = True,
    decode_pool: bool = False,
) -> Expr:
    """Return the cost of an instance for a request, in blocks: prefill work and active blocks.

    The parameters are those of `dynamo`. The order of operations is the source's,
    so that equal costs are equal here.
    """
    size, active = block_tokens, inst.active_prefill_tokens
    credit: Expr | float = overlap_score_credit
    if track_prefill_tokens and overlap_score_credit_decay > 0:
        ahead = (active - cluster.min(active)) / size / ((req.prompt_tokens + (size - 1)) // size)
        credit = overlap_score_credit * (1.0 / (1.0 + overlap_score_credit_decay * ahead))
    credited = credit * inst.index_blocks(req)
    blocks = inst.active_blocks + inst.active_new_blocks(req)
    running = decode_active_request_weight * inst.requests
    if decode_pool and not track_prefill_tokens and overlap_score_credit > 0:
        return maximum(blocks - credited, 0) + running
    if not track_prefill_tokens:
        return blocks + running
    prefill = maximum((active + req.prompt_tokens) / size - credited, 0)
    return prefill_load_scale * prefill + blocks + running


@typed(PolicyError)
def dynamo(
    *,
    block_tokens: int = 16,
    overlap_score_credit: float = 1.0,
    overlap_score_credit_decay: float = 0.0,
    prefill_load_scale: float = 1.0,
    decode_active_request_weight: float = 0.0,
    temperature: float = 0.0,
    tracking: DynamoTracking | None = None,
    decode_pool: bool = False,
    seed: int = 0,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Route to the instance with the least prefill work, less what it has cached, plus active blocks.

    Parameters
    ----------
    block_tokens
        Tokens in a block, for the router as for the engines.
    overlap_score_credit
        Blocks of prefill that a block of the prompt saves which the instance has
        cached.
    overlap_score_credit_decay
        How much that credit falls with the prefill that is queued at the instance
        beyond the least queued anywhere, in lengths of the prompt.
    prefill_load_scale
        The weight of prefill beside active blocks.
    decode_active_request_weight
        Blocks that count for each unfinished request.
    temperature
        How random the choice is; 0: the least cost, ties at random.
    tracking
        What the router keeps of the requests that it routed; None: as `DynamoTracking` has it.
    decode_pool
        Whether the instances only decode: without prefill, cached blocks then
        reduce the active ones.
    seed
        The seed of random choices.
    scheduler
        How instances form their steps; None: as vLLM.

    Examples
    --------
    >>> dynamo(tracking=DynamoTracking(use_kv_events=False)).index
    PrefixIndex()

    Notes
    -----
    Source: ai-dynamo/dynamo at 2093662a, ``lib/kv-router`` (the crate
    ``dynamo-kv-router`` 1.5.1): ``scheduling/selector/default.rs``,
    ``scheduling/config.rs``, ``sequences/``, ``indexer/``; the defaults are those of
    ``config.rs``. The engine makes every decision in the logs of that code under
    ``tests/conformance/logs/routers/dynamo_kv``, random ones included. Differences:
    the index without events forgets nothing, where the source forgets a block
    after 120 s; nothing queues at the router; cached blocks on the host or on disk,
    taints and predicted prefill times are not modelled. The source scans a hash map
    with an unseeded generator, so its ties cannot be repeated.
    """
    kept = DynamoTracking() if tracking is None else tracking
    cost = dynamo_cost(
        block_tokens=block_tokens,
        overlap_score_credit=overlap_score_credit,
        overlap_score_credit_decay=overlap_score_credit_decay,
        prefill_load_scale=prefill_load_scale,
        decode_active_request_weight=decode_active_request_weight,
        track_prefill_tokens=kept.prefill_tokens,
        decode_pool=decode_pool,
    )
    return Policy(
        name="dynamo",
        scheduler=Scheduler() if scheduler is None else scheduler,
        on_arrival=pick(min=cost, temperature=temperature, seed=seed),
        index=PrefixIndex(block_tokens=block_tokens, learns=kept.learns),
        active=ActiveBlocks(
            block_tokens=block_tokens,
            prompts=kept.active_blocks,
            reuses=kept.assume_kv_reuse,
            outputs=kept.outputs,
        ),
    )
