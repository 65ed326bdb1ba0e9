"""The default scorers of llm-d's endpoint picker."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Policy, PrefixIndex, Scheduler, cluster, inst, maximum, minimum, pick, req, where

__all__ = ["llm_d"]


@typed(PolicyError)
def llm_d(
    *,
    prefix_weight: float = 3.0,
    queue_weight: float = 2.0,
    kv_cache_weight: float = 2.0,
    block_tokens: int = 16,
    capacity: int = 31_250,
    longest: int = 256,
    seed: int = 0,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Route to the instance with the highest weighted sum of scores: prefix, queue and KV cache.

    Each score is from 0 to 1: the share of the prompt's blocks that the index has
    for the instance; how short its queue is, between the longest queue and the
    shortest; and the share of its KV blocks that is free.

    Parameters
    ----------
    prefix_weight, queue_weight, kv_cache_weight
        The weights of the scores.
    block_tokens
        Tokens in a block of the index.
    capacity
        Blocks that the index keeps for an instance.
    longest
        Leading blocks of a prompt that count.
    seed
        The seed of random ties.
    scheduler
        How instances form their steps; None: as vLLM.

    Examples
    --------
    >>> llm_d().index
    PrefixIndex(capacity=31250, longest=256)

    Notes
    -----
    Source: kubernetes-sigs/gateway-api-inference-extension at a172f54a,
    ``pkg/epp/scheduling/framework/plugins``: ``prefixcachescorer``, ``queuescorer``,
    ``kvcacheutilizationscorer`` and ``maxscorepicker``, which llm-d's scheduler is
    built on. The defaults of the index are the source's for 4 characters a token;
    the weights are those of the profile that llm-d's guides deploy. Differences:
    blocks are of tokens and not of characters; the source counts every block of a
    prompt that a server has, up to the first that no server has, where the index
    counts up to the first that this one lacks (they differ only if blocks were
    forgotten from the middle); the source learns the size of each server's cache
    from its metrics, and replaces the capacity by it (``autoTune``).
    """
    total = minimum(req.prompt_tokens // block_tokens, longest)
    prefix = inst.index_blocks(req) / maximum(total, 1)
    longest_queue, shortest = cluster.max(inst.waiting), cluster.min(inst.waiting)
    queue = where(longest_queue == shortest, 1, (longest_queue - inst.waiting) / (longest_queue - shortest))
    score = prefix_weight * prefix + queue_weight * queue + kv_cache_weight * (1 - inst.kv_usage)
    return Policy(
        name="llm-d",
        scheduler=Scheduler() if scheduler is None else scheduler,
        on_arrival=pick(max=score, temperature=0.0, seed=seed),
        index=PrefixIndex(block_tokens=block_tokens, capacity=capacity, longest=longest),
    )
