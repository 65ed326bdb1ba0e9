"""Shortest job first, by an oracle."""

from __future__ import annotations

import dataclasses

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.pars import pars
from paceline.policy import Policy, Rule, oracle

__all__ = ["sjf"]


@typed(PolicyError)
def sjf(
    *,
    patience: float = 120.0,
    keep_boost: bool = True,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Admit by shortest output, which only an oracle knows; else as `pars`.

    Parameters
    ----------
    patience, keep_boost, max_num_batched_tokens, max_num_seqs, routing
        As in `pars`.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> sjf().uses_oracle, sjf().scheduler.order
    (True, oracle.output_tokens)

    Notes
    -----
    Source: Tao et al., "PARS" (ISC 2026), section IV: its oracle ranks by the true
    lengths of responses. Here that is `pars` with these lengths for a score.
    """
    policy = pars(
        patience=patience,
        keep_boost=keep_boost,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        routing=routing,
    )
    scheduler = policy.scheduler_of(0)
    return dataclasses.replace(
        policy, name="sjf", scheduler=dataclasses.replace(scheduler, order=oracle.output_tokens)
    )
