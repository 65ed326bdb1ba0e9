"""The cache-aware policy of SGLang's model gateway."""

from __future__ import annotations

from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import (
    Expr,
    Policy,
    PromptTree,
    Scheduler,
    cluster,
    first_of,
    inst,
    pick,
    prompt_owner,
)
from paceline.policy.rules import FirstOf

__all__ = ["cache_aware", "sglang_router"]


@typed(PolicyError)
def sglang_router(
    *,
    cache_threshold: float = 0.3,
    balance_abs_threshold: int = 64,
    balance_rel_threshold: float = 1.5,
    text: Literal["tokens", "hex"] = "tokens",
    scheduler: Scheduler | None = None,
) -> Policy:
    """Route to the instance that had a prompt like this one, unless the loads are out of balance.

    The load of an instance is its number of unfinished requests. If the loads are
    out of balance, the least loaded instance is picked; else the owner of the prompt
    in the router's tree, if the tree has enough of it; else the least loaded.

    Parameters
    ----------
    cache_threshold
        The share of a prompt that the tree must exceed.
    balance_abs_threshold, balance_rel_threshold
        The loads are out of balance if the greatest exceeds the least by more than
        the former, and is more than the latter times the least.
    text
        How the trace's blocks become the text that is compared, see `PromptTree`.
    scheduler
        How instances form their steps; None: as vLLM.

    Examples
    --------
    >>> sglang_router().tree
    PromptTree()

    Notes
    -----
    Source: sgl-model-gateway 0.3.2 (the source distribution of ``sglang_router``
    0.3.2), ``src/policies/cache_aware.rs`` and ``tree.rs``; defaults of its command
    line, ``src/main.rs`` (the library's, ``src/policies/mod.rs``, are 0.5, 32 and
    1.1). The engine makes every decision in the logs of that code under
    ``tests/conformance/logs/routers/sglang_cache_aware``. Differences: the tree is
    not evicted (the source cuts it to 67,108,864 characters every 120 s, on a
    thread of its own, with ties by hash); shares are compared in double precision,
    where the source has single.
    """
    return Policy(
        name="sglang-router",
        scheduler=Scheduler() if scheduler is None else scheduler,
        on_arrival=cache_aware(
            cache_threshold=cache_threshold,
            balance_abs_threshold=balance_abs_threshold,
            balance_rel_threshold=balance_rel_threshold,
        ),
        tree=PromptTree(text=text),
    )


@typed(PolicyError)
def cache_aware(
    *,
    load: Expr = inst.requests,
    cache_threshold: float = 0.3,
    balance_abs_threshold: int = 64,
    balance_rel_threshold: float = 1.5,
    within: str | None = None,
) -> FirstOf:
    """Return the rule of `sglang_router`, for a pool of its own if one is named.

    Parameters
    ----------
    load
        The load of an instance.
    cache_threshold, balance_abs_threshold, balance_rel_threshold
        See `sglang_router`.
    within
        The pool whose instances it picks, of whose prompts it has a tree; None: all.

    Examples
    --------
    >>> cache_aware(within="prefill").rules[1]
    prompt_owner(above=0.3, within='prefill')
    """
    least, greatest = cluster.min(load, within=within), cluster.max(load, within=within)
    unbalanced = (greatest - least > balance_abs_threshold) & (greatest > least * balance_rel_threshold)
    return first_of(
        pick(min=load, within=within, accept=unbalanced),
        prompt_owner(above=cache_threshold, within=within),
        pick(min=load, within=within),
    )
