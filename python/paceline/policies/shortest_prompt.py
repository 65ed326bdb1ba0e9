"""Short prompts first, with a bound on the wait."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Policy, Rule, Scheduler, req

__all__ = ["shortest_prompt"]


@typed(PolicyError)
def shortest_prompt(
    *,
    tokens_per_s: float = 1000.0,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Admit the shortest prompt, where a second of waiting counts as so many tokens less.

    Parameters
    ----------
    tokens_per_s
        Tokens by which a prompt counts as shorter for each second since its arrival; 0: it may wait for ever.
    max_num_batched_tokens, max_num_seqs
        Limits of a step; None: the GPU's defaults.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> shortest_prompt(tokens_per_s=500).scheduler.order
    req.prompt_tokens + 500 * req.arrival

    Notes
    -----
    Source: shortest job first by prompt length with aging, as vLLM pull request 29366 proposes it; its
    score weighs length and wait by constants of its own. Since all requests age alike, the order of two
    never changes.
    """
    if not tokens_per_s >= 0:
        raise PolicyError(f"tokens_per_s must be 0 or more, was {tokens_per_s}")
    return Policy(
        name="shortest_prompt",
        scheduler=Scheduler(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            order=req.prompt_tokens + tokens_per_s * req.arrival,
        ),
        on_arrival=routing,
    )
