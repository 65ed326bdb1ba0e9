"""Sarathi-Serve's scheduler."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Policy, Routing, Scheduler
from paceline.policy.stages import Admit, Decodes, Prefills

__all__ = ["sarathi"]


@typed(PolicyError)
def sarathi(
    *,
    chunk_size: int = 512,
    max_num_seqs: int = 128,
    watermark: float = 0.01,
    routing: Routing = "fewest_requests",
) -> Policy:
    """Never stall decodes: they run in every step, and chunks of prefill take the tokens that are left.

    A step schedules all decodes, then running prefills, then admits waiting
    requests, first come, first served, until its tokens are used up. An admission
    allocates blocks for its whole prompt and leaves a share of all blocks free. A
    decode needs a free block, even if it fills none; if there is none, the request
    admitted last is preempted, also a prefill.

    Parameters
    ----------
    chunk_size
        Tokens of a step, decodes and prefill together.
    max_num_seqs
        Requests that may run at once, no more than ``chunk_size``: each step
        must have a token for every decode.
    watermark
        Share of the blocks that admissions leave free, 0 or more and below 1.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy.

    Raises
    ------
    PolicyError
        If more requests may run than a step has tokens.

    Examples
    --------
    >>> sarathi(chunk_size=256).scheduler.max_num_batched_tokens
    256

    Notes
    -----
    Source: Agrawal et al., "Taming Throughput-Latency Tradeoff in LLM Inference
    with Sarathi-Serve" (OSDI 2024), and the authors'
    ``sarathi/core/scheduler/sarathi_scheduler.py`` (96f99117), from which the
    defaults are. Its dynamic chunk, which shrinks along a prompt, is not modelled.
    """
    if max_num_seqs > chunk_size:
        raise PolicyError(
            f"max_num_seqs of sarathi must be chunk_size ({chunk_size}) or less, so that each decode has "
            f"its token in every step, was {max_num_seqs}"
        )
    scheduler = Scheduler(
        max_num_batched_tokens=chunk_size,
        max_num_seqs=max_num_seqs,
        stages=(Decodes(), Prefills(), Admit()),
        allocation="sequence",
        watermark=watermark,
        watermark_when_idle=True,
        spare_block=True,
    )
    return Policy(name="sarathi", scheduler=scheduler, on_arrival=routing)
