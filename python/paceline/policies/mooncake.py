"""Mooncake's conductor: cache-aware prefill, and early rejection."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.objectives import SLO
from paceline.policies.vllm import vllm
from paceline.policy import Policy, Pools, Scheduler, cluster, first_of, inst, pick, reject, req, slo

__all__ = ["mooncake"]


@typed(PolicyError)
def mooncake(
    *,
    prefill: int = 1,
    decode: int = 1,
    ttft: float = 30.0,
    tbt: float = 0.1,
    store_block_tokens: int = 256,
    step_s: float = 0.0075,
    request_s: float = 0.0,
    token_s: float = 4.5e-8,
    rejecting: bool = True,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Prefill where the first token is predicted earliest, and reject what would miss an objective.

    The predicted TTFT of an instance is the prefill queued there and that of the
    part of the prompt which it has not cached. The decode instance is that with the least
    predicted time between tokens. Both are chosen as the request arrives; it is rejected if
    the better of either misses its objective.

    Parameters
    ----------
    prefill, decode
        Instances of each pool.
    ttft, tbt
        The objectives in seconds. The paper has 30 s, and 0.1, 0.2 or 0.3 s.
    store_block_tokens
        Cached tokens count in whole blocks of the store: 256 in the paper; the blocks of its
        traces have 512.
    step_s, request_s, token_s
        The prediction of the time between tokens: seconds of a step, for each request, and
        for each token of context, by default those of `arrow_xllm`.
    rejecting
        Whether requests are rejected.
    scheduler
        How instances form their steps; None: as vLLM with prefix caching.

    Returns
    -------
    Policy
        The policy, for a cluster of ``prefill + decode`` instances with `Links`.

    Examples
    --------
    >>> mooncake(prefill=3, decode=5, tbt=0.2).slo
    SLO(ttft=30.0, tpot=0.2)

    Notes
    -----
    Source: Qin et al., "Mooncake: Trading More Storage for Less Computation" (FAST 2025),
    algorithm 1 and the section on early rejection; the scheduler is not released. Differences: an
    instance uses only what it has cached itself. The paper's algorithm, where another
    instance has more than ``kvcache_balancing_threshold`` times as much (no value is given), has
    that sent over first, and so replicates hot prefixes; here no blocks are transferred
    that belong to no request. A queued prompt counts in full, cached or not. Prefill is
    predicted in proportion to the uncached tokens. Decode instances count a request from the end
    of its prefill on, which is the lag that makes early rejection swing between
    the pools; the paper's remedy, rejection by predicted load (arXiv version), is not
    included.
    """
    cached = (inst.prefix_tokens(req) // store_block_tokens) * store_block_tokens
    uncached = (req.prompt_tokens - cached) / req.prompt_tokens
    first = inst.prefill_delay + inst.prefill_time(req) * uncached
    between = (
        step_s + request_s * (inst.requests + 1) + token_s * (inst.outstanding_tokens + req.prompt_tokens)
    )
    route = pick(min=first, within="prefill")
    late = (cluster.min(first, within="prefill") > slo.ttft) | (
        cluster.min(between, within="decode") > slo.tpot
    )
    return Policy(
        name="mooncake",
        scheduler=vllm(prefix_caching=True).scheduler if scheduler is None else scheduler,
        pools=Pools(prefill=prefill, decode=decode),
        on_arrival=first_of(reject(when=late), route) if rejecting else route,
        decode_on_arrival=pick(min=between, within="decode"),
        slo=SLO(ttft=ttft, tpot=tbt),
    )
