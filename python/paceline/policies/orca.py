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
    """Schedule by the iteration: an arrival joins the next step with its whole prompt, beside decodes.

    Requests are admitted first come, first served, and leave the batch as soon as
    they have their last token. The tokens of a step have no limit, so a long
    prompt delays all decodes by its whole time. Activations have the memory of
    vLLM's largest step on the GPU.

    Parameters
    ----------
    max_num_seqs
        Requests of a batch, decodes and prefills together (the paper's
        ``max_bs``, which it varies; it names no default).
    routing
        Which instance an arrival joins.

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
    reserves memory for a request's longest output before it admits the request,
    and so never preempts. Here blocks are allocated as they are needed, and if
    they run out, the request admitted last is preempted. With the scheduler's
    ``allocation="chunk_if_output_fits"`` the output that there will be is reserved.
    `authors_orca` is the variant that the layered-prefill authors measured, with a
    limit on tokens.
    """
    scheduler = Scheduler(
        max_num_batched_tokens=NO_LIMIT,
        max_num_seqs=max_num_seqs,
        stages=(Running(), Admit(chunked=False, unless_preempted=True)),
        allocation="sequence",
    )
    return Policy(name="orca", scheduler=scheduler, on_arrival=routing)
