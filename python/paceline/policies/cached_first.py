"""Orders of the waiting queue by what the prefix cache has, as proposed for vLLM."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Expr, Policy, PrefixCache, Refresh, Rule, Scheduler, req, where

__all__ = ["cache_affinity", "residual_sjf"]


def _policy(
    name: str, order: Expr | tuple[Expr, ...], limits: tuple[int | None, int | None], routing: Rule
) -> Policy:
    return Policy(
        name=name,
        scheduler=Scheduler(
            max_num_batched_tokens=limits[0],
            max_num_seqs=limits[1],
            order=order,
            refresh=Refresh(steps=1),
            prefix_cache=PrefixCache(),
        ),
        on_arrival=routing,
    )


@typed(PolicyError)
def cache_affinity(
    *,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Admit the request with the longest cached prefix, looked up before each step.

    Parameters
    ----------
    max_num_batched_tokens, max_num_seqs
        Limits of a step; None: the GPU's defaults.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy. The trace says what prompts share.

    Examples
    --------
    >>> cache_affinity().scheduler.order
    -req.cached_tokens

    Notes
    -----
    Source: vLLM issue 42185, an order of the V1 waiting queue. Different from it: if blocks run
    out, the running request that arrived last is preempted.
    """
    limits = max_num_batched_tokens, max_num_seqs
    return _policy("cache_affinity", -req.cached_tokens, limits, routing)


@typed(PolicyError)
def residual_sjf(
    *,
    max_wait_s: float = 10.0,
    block_tokens: int = 16,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Admit the request whose prompt has the fewest blocks left to compute, looked up before each step.

    Preempted requests are first, then those that have waited for long, in order of arrival.

    Parameters
    ----------
    max_wait_s
        Seconds after which a request is admitted in order of arrival, before those that came later.
    block_tokens
        Tokens of a block, in which prompts are compared.
    max_num_batched_tokens, max_num_seqs
        Limits of a step; None: the GPU's defaults.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy. The trace says what prompts share.

    Examples
    --------
    >>> residual_sjf(max_wait_s=5.0).scheduler.refresh
    Refresh(steps=1)

    Notes
    -----
    Source: vLLM pull request 51375; ``residual_sjf_max_wait_ms`` is 10,000 by default in xLLM's port,
    pull request 2164. Different from it: if blocks run out, the running request with the longest
    prompt is preempted, and not the one admitted last.
    """
    if not max_wait_s >= 0:
        raise PolicyError(f"max_wait_s must be 0 or more seconds, was {max_wait_s}")
    if block_tokens < 1:
        raise PolicyError(f"block_tokens must be at least 1, was {block_tokens}")
    aged = req.waiting_time >= max_wait_s
    place = where(req.preemptions > 0, 0, where(aged, 1, 2))
    residual = (req.prompt_tokens - req.cached_tokens) // block_tokens
    limits = max_num_batched_tokens, max_num_seqs
    return _policy("residual_sjf", (place, where(aged, req.arrival, residual)), limits, routing)
