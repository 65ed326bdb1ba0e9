"""Eviction by the probability that a block is used again, from distributions by category of requests."""

from __future__ import annotations

import math
from collections.abc import Mapping

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Eviction, Expr, Policy, PrefixCache, Rule, Scheduler, block, req, where

__all__ = ["reuse_probability"]

_NEVER = -1e9
"""The logarithm that stands for a probability of 0, less than any that a time can reach."""


@typed(PolicyError)
def reuse_probability(
    *,
    category: str = "turn",
    reuse: Mapping[float, tuple[float, float]] | None = None,
    life_s: float = 60.0,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Evict the cached block that is least likely to be used again within some seconds.

    A block belongs to the category of the request that used it last. Of a category, a share p of the uses
    is followed by another, after a time that is exponential with the mean m. So a block that is idle for
    t seconds is used again within the next s with the probability ``p exp(-t/m) (1 - exp(-s/m))``. Its
    logarithm falls linearly with t, so that within a category the least recently used block is evicted
    first, and categories are compared by their first blocks.

    Parameters
    ----------
    category
        The column of numbers that is a request's category.
    reuse
        Share p and mean m in seconds by category, as :func:`paceline.reuse.reuse_times` measures them;
        blocks of other categories are evicted first. None: there are none, and eviction is that of the
        least recently used.
    life_s
        The seconds s: how long blocks stay cached.
    max_num_batched_tokens, max_num_seqs
        Limits of a step; None: the GPU's defaults.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        vLLM's scheduler with this eviction.

    Examples
    --------
    >>> policy = reuse_probability(reuse={1: (0.4, 300.0), 2: (0.8, 120.0)}, life_s=100.0)
    >>> policy.scheduler.prefix_cache.evict.groups
    req.column('turn')

    Notes
    -----
    Source: Wang et al., "KVCache Cache in the Wild", USENIX ATC 2025 (arXiv 2506.02634): the priority is
    the pair of reuse probability and offset in the prefix, with distributions by workload. Different from
    it: the distributions are given and do not follow the load, and the offset decides only between blocks
    of one request.
    """
    if not life_s > 0:
        raise PolicyError(f"life_s must be above 0 seconds, was {life_s}")
    first: Expr | float = _NEVER - block.idle
    of = req.column(category)
    for number, (share, mean_s) in sorted((reuse or {}).items(), reverse=True):
        if not (0 < share <= 1 and 0 < mean_s < math.inf):
            raise PolicyError(
                f"reuse of category {number:g} must be a share in (0, 1] and seconds above 0, was "
                f"{(share, mean_s)}"
            )
        chance = math.log(share) + math.log(-math.expm1(-life_s / mean_s))
        first = where(of == number, chance - block.idle / mean_s, first)
    evict = Eviction(order=block.last_use, groups=of, first=first) if reuse else None
    return Policy(
        name="reuse_probability",
        scheduler=Scheduler(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            prefix_cache=PrefixCache(evict=evict),
        ),
        on_arrival=routing,
    )
