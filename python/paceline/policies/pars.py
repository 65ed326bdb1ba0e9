"""PARS' scheduler, which serves the shortest predicted output first."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Class, Policy, Rule, Scheduler, req
from paceline.policy.stages import Admit, Running

__all__ = ["pars"]

FOR_GOOD = 2**32 - 2
"""More tokens than any request generates."""


@typed(PolicyError)
def pars(
    *,
    patience: float = 120.0,
    keep_boost: bool = True,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Admit by shortest predicted output; a request that waited too long is admitted before all others.

    Running requests are not displaced. If blocks run out, the worst-ranked running
    request is preempted.

    Parameters
    ----------
    patience
        Seconds of waiting after which a request ranks before all others.
    keep_boost
        Whether it keeps that rank until it finishes, or only until it is admitted.
    max_num_batched_tokens, max_num_seqs
        Limits of a step; None: the GPU's defaults.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy. It reads the trace's ``score``, the shortest prediction first.

    Examples
    --------
    >>> pars(keep_boost=False).scheduler.classes
    (Class('boosted', when=req.waiting_time > 120.0, order=req.arrival),)

    Notes
    -----
    Source: Tao et al., "PARS: Low-Latency LLM Serving via Pairwise
    Learning-to-Rank" (ISC 2026), section III-B; SPEAR-UIC/PARS (eff51953) has the
    predictor and no scheduler, and feeds its score to vLLM as a priority. The
    paper states neither the order of boosted requests (by arrival here) nor how
    long the boost lasts.
    """
    return Policy(
        name="pars",
        scheduler=Scheduler(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            stages=(Running(), Admit(unless_preempted=True)),
            classes=[
                Class(
                    "boosted",
                    when=req.waiting_time > patience,
                    hold=FOR_GOOD if keep_boost else 0,
                    order=req.arrival,
                )
            ],
            order=req.score,
        ),
        on_arrival=routing,
    )
