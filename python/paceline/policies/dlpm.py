"""Deficit longest prefix match: cached prompts first, within fair shares."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Policy, PrefixCache, Refresh, Rule, Scheduler, accumulated, req

__all__ = ["dlpm"]


@typed(PolicyError)
def dlpm(
    *,
    quantum: float = 1000.0,
    prefill_cost: float = 1.0,
    output_cost: float = 1.0,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Admit the request with the longest cached prefix, of the tenants that have a deficit left.

    A tenant's deficit is charged for the tokens of a prompt that are computed, as its
    request is admitted, and for each output token. If no waiting request may be
    admitted, each deficit that is used up gets a quantum, again until one may.

    Parameters
    ----------
    quantum
        Tokens by which deficits grow. Near 0 tenants are served as by `vtc`; with a
        large one, prompts in the order of their cached prefixes.
    prefill_cost, output_cost
        Charges for a computed token of a prompt, and for a token of an output.
    max_num_batched_tokens, max_num_seqs
        Limits of a step; None: the GPU's defaults.
    routing
        Which instance an arrival joins. Each instance has deficits of its own.

    Returns
    -------
    Policy
        The policy. It reads the trace's ``tenant``, and what prompts share.

    Examples
    --------
    >>> dlpm(quantum=500).scheduler.order
    -req.cached_tokens

    Notes
    -----
    Source: Cao et al., "Locality-aware Fair Scheduling in LLM Serving" (arXiv
    2501.14312), algorithm 1, as ported to SGLang. Different from it: the queue is
    vLLM's, so that running requests are scheduled first; if blocks run out, the
    running request with the shortest cached prefix at its admission is preempted;
    a tenant that was idle for an hour is not forgotten; prompts that are equally
    cached are taken in the order of their arrivals.
    """
    deficit = accumulated(
        by="tenant", prompt=-prefill_cost, output=-output_cost, when="computed", quantum=quantum
    )
    return Policy(
        name="dlpm",
        scheduler=Scheduler(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            order=-req.cached_tokens,
            refresh=Refresh(steps=1),
            admits=deficit > 0,
            prefix_cache=PrefixCache(),
        ),
        on_arrival=routing,
    )
