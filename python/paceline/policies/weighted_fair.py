"""Weighted fair queueing of tenants, by the tokens that they are served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vtc import vtc
from paceline.policy import Policy, Rule

__all__ = ["weighted_fair"]


@typed(PolicyError)
def weighted_fair(
    *,
    shares: Mapping[str, float] | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Serve tenants in proportion to their weights.

    The next request is the oldest of the tenant with the least service, in tokens of
    prompts and outputs over its weight. A tenant without a waiting request saves
    nothing: as it comes back, its service counts as at least that of the tenant that
    has the least of those waiting.

    Parameters
    ----------
    shares
        Weights of tenants, by name; 1 where none is given.
    max_num_batched_tokens, max_num_seqs
        Limits of a step; None: the GPU's defaults.
    routing
        Which instance an arrival joins. Each instance has counts of its own.

    Returns
    -------
    Policy
        The policy. It reads the trace's ``tenant``.

    Examples
    --------
    >>> weighted_fair(shares={"paying": 3.0}).name
    'weighted_fair'

    Notes
    -----
    Source: Goyal, Vin and Cheng, "Start-time fair queueing" (SIGCOMM 1996): a flow is
    served by its start tag, which is at least the virtual time when it comes back. The
    length of an answer is not known at its start, so a tenant's tag grows by each token
    as it appears, and with it that of all of its waiting requests. Virtual finish times
    from ``max_tokens``, as of vLLM's closed pull request 31909, are not modelled: traces do not
    have that limit.
    """
    policy = vtc(
        output_weight=1.0,
        shares=shares,
        lift="paper",
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        routing=routing,
    )
    return replace(policy, name="weighted_fair")
