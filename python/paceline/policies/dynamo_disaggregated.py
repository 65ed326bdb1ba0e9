"""NVIDIA Dynamo's conditional disaggregation."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.dynamo import dynamo_cost
from paceline.policies.vllm import vllm
from paceline.policy import (
    ActiveBlocks,
    Policy,
    Pools,
    PrefixIndex,
    Scheduler,
    first_of,
    inst,
    pick,
    req,
    stay,
)

__all__ = ["dynamo_disaggregated"]


@typed(PolicyError)
def dynamo_disaggregated(
    *,
    prefill: int = 1,
    decode: int = 1,
    local_below_tokens: int = 2048,
    local_below_share: float = 0.7,
    block_tokens: int = 16,
    overlap_score_credit: float = 1.0,
    seed: int = 0,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Prefill on the decode instance if little of the prompt is uncached there, else apart.

    Parameters
    ----------
    prefill, decode
        Instances of each pool.
    local_below_tokens, local_below_share
        The decode instance prefills if fewer tokens of the prompt are not cached there, and
        a smaller share of it.
    block_tokens, overlap_score_credit
        As of `dynamo`.
    seed
        The seed of random choices among equals.
    scheduler
        How instances form their steps; None: as vLLM with prefix caching.

    Returns
    -------
    Policy
        The policy, for a cluster of ``prefill + decode`` instances with `Links`.

    Examples
    --------
    >>> dynamo_disaggregated(prefill=2, decode=6).pools
    Pools(prefill=2, decode=6)

    Notes
    -----
    Source: ai-dynamo/dynamo at 2093662a, ``conditional_disagg.rs`` (2,048 tokens, 0.7) and
    the cost of ``lib/kv-router``, see `dynamo`. Differences: what decode instances have
    cached is read from their caches, as the source learns it from their events; the
    decode instance is picked again when the prefill on another instance has ended, and books
    move there then.
    """
    cached = inst.prefix_tokens(req)
    uncached = req.prompt_tokens - cached
    blocks = inst.active_blocks + inst.active_new_blocks(req) - overlap_score_credit * cached / block_tokens
    few = (uncached < local_below_tokens) & (uncached < local_below_share * req.prompt_tokens)
    on_prefill = dynamo_cost(block_tokens=block_tokens, overlap_score_credit=overlap_score_credit)
    return Policy(
        name="dynamo-disaggregated",
        scheduler=vllm(prefix_caching=True).scheduler if scheduler is None else scheduler,
        pools=Pools(prefill=prefill, decode=decode),
        on_arrival=first_of(
            pick(min=blocks, within="decode", accept=few, ties="random"),
            pick(min=on_prefill, within="prefill", ties="random"),
        ),
        on_prefilled=first_of(
            stay(when=inst.here.role == "decode"), pick(min=blocks, within="decode", ties="random")
        ),
        index=PrefixIndex(block_tokens=block_tokens, learns="prefilled"),
        active=ActiveBlocks(block_tokens=block_tokens),
        seed=seed,
    )
