"""llm-d's conditional disaggregation."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.llm_d import llm_d_score
from paceline.policies.vllm import vllm
from paceline.policy import Policy, Pools, Reports, Scheduler, first_of, inst, pick, req, stay

__all__ = ["llm_d_disaggregated"]


@typed(PolicyError)
def llm_d_disaggregated(
    *,
    prefill: int = 1,
    decode: int = 1,
    non_cached_tokens: int = 16,
    queue_weight: float = 1.0,
    kv_cache_weight: float = 0.0,
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
    queue_weight, kv_cache_weight, prefix_weight
        As of `llm_d`; the defaults are those of the sample configuration for prefill and
        decode.
    report_s
        Seconds between two reports of queues and KV.
    seed
        The seed of random ties.
    scheduler
        How instances form their steps; None: as vLLM with prefix caching.

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
    Source: llm-d's inference scheduler, ``pkg/epp/config/loader/defaults.go`` (metrics every
    50 ms) and the decider of its profile handler (``nonCachedTokens``: 0 by default, 16 in
    the sample), from reading, without logs; the scores as of `llm_d`. Differences: what is
    cached is read from the instances' caches, as llm-d's precise scorer learns it from
    their events (its default index learns the decode instance as the request arrives, ours
    would as it is handed over); the decode instance is scored again after the prefill instance is known,
    with the same numbers, so that among equals it may differ from the one whose cache
    decided.
    """
    cached = inst.prefix_tokens(req)
    on_decode, on_prefill = (
        llm_d_score(
            cached / req.prompt_tokens,
            prefix_weight=prefix_weight,
            queue_weight=queue_weight,
            kv_cache_weight=kv_cache_weight,
            within=pool,
        )
        for pool in ("decode", "prefill")
    )
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
