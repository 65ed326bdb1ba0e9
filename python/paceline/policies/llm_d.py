"""llm-d's scorers, and its conditional disaggregation."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm import vllm
from paceline.policy import (
    Expr,
    Policy,
    Pools,
    PrefixIndex,
    Reports,
    Scheduler,
    cluster,
    first_of,
    inst,
    maximum,
    pick,
    req,
    stay,
    where,
)

__all__ = ["llm_d", "llm_d_disaggregated", "llm_d_score"]


@typed(PolicyError)
def llm_d_score(
    prefix: Expr, *, queue: float = 2.0, kv: float = 2.0, cached: float = 3.0, within: str | None = None
) -> Expr:
    """Return the weighted sum of the scores of an instance, each from 0 to 1.

    Parameters
    ----------
    prefix
        The share of the prompt that the instance has cached.
    queue, kv, cached
        The weights: of short queues, relative to the shortest and the longest; of free KV; and
        of the cached prefix.
    within
        The pool that queues are compared in; None: all instances.
    """
    longest = cluster.max(inst.waiting, within=within)
    spread = longest - cluster.min(inst.waiting, within=within)
    short = where(spread == 0, 1, (longest - inst.waiting) / spread)
    return queue * short + kv * (1 - inst.kv_usage) + cached * prefix


@typed(PolicyError)
def llm_d(
    *,
    queue_weight: float = 2.0,
    kv_weight: float = 2.0,
    prefix_weight: float = 3.0,
    block_tokens: int = 16,
    lru_capacity: int = 31_250,
    report_s: float = 0.05,
    seed: int = 0,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Route to the highest sum of scores: short queue, free KV, cached prefix.

    Parameters
    ----------
    queue_weight, kv_weight, prefix_weight
        The weights of the scores, which are from 0 to 1.
    block_tokens, lru_capacity
        Tokens in a block of the router's prefix index, and its blocks for each instance.
    report_s
        Seconds between two reports of queues and KV.
    seed
        The seed of random choices among equals.
    scheduler
        How instances form their steps; None: as vLLM with prefix caching.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> llm_d().index
    PrefixIndex(capacity=31250)

    Notes
    -----
    Source: llm-d's inference scheduler, ``pkg/epp/config/loader/defaults.go`` and the scorers of
    the Gateway API Inference Extension (from reading; no commit pinned, and no logs):
    queue ``(max - q) / (max - min)``, 1 if all are equal; KV ``1 - usage``; prefix the
    matched share of the prompt's full blocks; the maximum is picked, ties at random.
    Differences: filters on saturation and on stale metrics (200 ms) are not modelled.
    """
    matched = inst.index_blocks(req) / maximum(req.prompt_tokens // block_tokens, 1)
    score = llm_d_score(matched, queue=queue_weight, kv=kv_weight, cached=prefix_weight)
    return Policy(
        name="llm-d",
        scheduler=vllm(prefix_caching=True).scheduler if scheduler is None else scheduler,
        on_arrival=pick(max=score, ties="random"),
        index=PrefixIndex(block_tokens=block_tokens, capacity=lru_capacity),
        reports=Reports(every=report_s),
        seed=seed,
    )


@typed(PolicyError)
def llm_d_disaggregated(
    *,
    prefill: int = 1,
    decode: int = 1,
    non_cached_tokens: int = 16,
    queue_weight: float = 1.0,
    kv_weight: float = 0.0,
    prefix_weight: float = 2.0,
    report_s: float = 0.05,
    seed: int = 0,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Choose the decode instance first, and prefill apart only if enough of the prompt is not cached there.

    Parameters
    ----------
    prefill, decode
        Instances of each pool.
    non_cached_tokens
        Uncached tokens on the decode instance above which another instance prefills; 0:
        none does.
    queue_weight, kv_weight, prefix_weight
        As of `llm_d`; the defaults are those of the sample configuration for prefill and
        decode.
    report_s, seed, scheduler
        As of `llm_d`.

    Returns
    -------
    Policy
        The policy, for a cluster of ``prefill + decode`` instances with `Links`.

    Examples
    --------
    >>> llm_d_disaggregated(prefill=2, decode=2).pools
    Pools(prefill=2, decode=2)

    Notes
    -----
    Source: as of `llm_d`, and the decider of its profile handler (``nonCachedTokens``, 0 by
    default; 16 in the sample). Differences: what is cached is read from the instances' caches, as
    llm-d's precise scorer learns it from their events, as a router's `PrefixIndex` learns only
    where a request is sent as it arrives; the decode instance is scored again after the
    prefill instance is known, with the same numbers, so that among equals it may differ from the
    one whose cache decided.
    """
    cached = inst.prefix_tokens(req)
    weights = {"queue": queue_weight, "kv": kv_weight, "cached": prefix_weight}
    share = cached / req.prompt_tokens
    on_decode = llm_d_score(share, within="decode", **weights)
    on_prefill = llm_d_score(share, within="prefill", **weights)
    local = pick(
        max=on_decode,
        within="decode",
        accept=None if non_cached_tokens == 0 else req.prompt_tokens - cached <= non_cached_tokens,
        ties="random",
    )
    apart = pick(max=on_prefill, within="prefill", ties="random")
    return Policy(
        name="llm-d-disaggregated",
        scheduler=vllm(prefix_caching=True).scheduler if scheduler is None else scheduler,
        pools=Pools(prefill=prefill, decode=decode),
        on_arrival=local if non_cached_tokens == 0 else first_of(local, apart),
        decode_on_arrival=first_of(
            stay(when=inst.here.role == "decode"), pick(max=on_decode, within="decode", ties="random")
        ),
        reports=Reports(every=report_s),
        seed=seed,
    )
