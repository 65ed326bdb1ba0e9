"""The KV router of NVIDIA Dynamo."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
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
from paceline.policy.books import Learns, TrackedOutputs

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
    use_kv_events: bool = True,
    output_events: bool = True,
    track_active_blocks: bool = True,
    track_output_blocks: bool = False,
    expected_outputs: bool = False,
    assume_kv_reuse: bool = True,
    track_prefill_tokens: bool = True,
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
    use_kv_events
        Whether the index learns from events of the engines, at the first token;
        False: from the router's decisions.
    output_events
        Whether events also tell of the blocks that outputs filled. Needs a trace
        with sessions.
    track_active_blocks
        Whether the blocks of unfinished requests' prompts count.
    track_output_blocks
        Whether the blocks that their outputs fill count.
    expected_outputs
        Whether these fade as an output nears its expected end, here its real one,
        so that the policy uses an oracle.
    assume_kv_reuse
        Whether a block that several requests of an instance have counts once.
    track_prefill_tokens
        Whether prefill counts.
    decode_pool
        Whether the instances only decode: without prefill, cached blocks then
        reduce the active ones.
    seed
        The seed of random choices.
    scheduler
        How instances form their steps; None: as vLLM.

    Examples
    --------
    >>> dynamo(use_kv_events=False).index
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
    learned: Learns = "routed" if not use_kv_events else "finished" if output_events else "prefilled"
    outputs: TrackedOutputs = (
        "none" if not track_output_blocks else "decaying" if expected_outputs else "whole"
    )
    cost = dynamo_cost(
        block_tokens=block_tokens,
        overlap_score_credit=overlap_score_credit,
        overlap_score_credit_decay=overlap_score_credit_decay,
        prefill_load_scale=prefill_load_scale,
        decode_active_request_weight=decode_active_request_weight,
        track_prefill_tokens=track_prefill_tokens,
        decode_pool=decode_pool,
    )
    return Policy(
        name="dynamo",
        scheduler=Scheduler() if scheduler is None else scheduler,
        on_arrival=pick(min=cost, temperature=temperature, seed=seed),
        index=PrefixIndex(block_tokens=block_tokens, learns=learned),
        active=ActiveBlocks(
            block_tokens=block_tokens,
            prompts=track_active_blocks,
            reuses=assume_kv_reuse,
            outputs=outputs,
        ),
    )
