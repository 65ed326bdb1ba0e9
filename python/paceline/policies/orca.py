"""Orca's scheduler."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Policy, Routing, Scheduler
from paceline.policy.scheduler import NO_LIMIT
from paceline.policy.stages import Admit, Running

__all__ = ["orca"]


@typed(PolicyError)
def orca(*, max_num_seqs: int = 32, routing: Routing = "fewest_requests") -> Policy:
    """Schedule by the iteration: who arrives joins the next step with the whole prompt, beside decodes.

    Requests run first come, first served, at most so many at once, and leave as
    soon as they have their last token. Tokens of a step have no limit, so a long
    prompt holds all decodes up for as long as it takes. Activations are given
    the memory that vLLM's step on the GPU has.

    Parameters
    ----------
    max_num_seqs
        Requests of a batch, decodes and prefills together (the paper's
        ``max_bs``, which it varies; it names no default).
    routing
        Which replica an arrival joins.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> orca(max_num_seqs=8).scheduler.max_num_seqs
    8

    Notes
    -----
    Source: Yu et al., "Orca: A Distributed Serving System for Transformer-Based
    Generative Models" (OSDI 2022), algorithm 1. Orca is not open source. It
    reserves memory for a request's longest output before it lets it in, and so
    never preempts; here memory comes in blocks as it is needed, and where they
    run out the latest admitted gives way. `authors_orca` is the variant that the
    layered-prefill authors measured, with a limit on tokens.
    """
    scheduler = Scheduler(
        max_num_batched_tokens=NO_LIMIT,
        max_num_seqs=max_num_seqs,
        stages=(Running(), Admit(chunked=False, unless_preempted=True)),
        allocation="sequence",
    )
    return Policy(name="orca", scheduler=scheduler, on_arrival=routing)
