"""Layered prefill, and the two modes that its authors compare it with."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Policy, Routing, Scheduler
from paceline.policy.stages import Admit, Decodes, Groups, Layered, Prefills

__all__ = ["authors_chunked", "authors_orca", "layered_prefill"]

_TABLE = {
    4: (1, 2, 4, 4),
    12: (1, 2, 4, 6),
    16: (1, 2, 4, 8),
    24: (1, 2, 4, 8),
}
"""Groups for a batch of at most 512, 1,024, 2,048 and 4,096 tokens, by the most groups."""


@typed(PolicyError)
def layered_prefill(
    *,
    layers: int,
    groups: Groups | int = 16,
    max_num_batched_tokens: int = 8192,
    max_num_seqs: int = 256,
    routing: Routing = "fewest_requests",
) -> Policy:
    """Run a batch of prompts through one group of layers a step, decodes through all.

    A batch is formed of all waiting requests that fit, and no request joins it
    before it has passed all layers. Its number of groups follows from its tokens,
    so that a step has about as much prefill as a chunk of 512 tokens. Each weight
    is read once for the whole batch instead of once for each chunk.

    Parameters
    ----------
    layers
        Layers of the model.
    groups
        The most groups, by the authors' table (4, 12, 16 or 24), or any rule;
        `by_tokens` is the paper's.
    max_num_batched_tokens
        Prompt tokens of a batch; a longer prompt is cut into several batches.
    max_num_seqs
        Requests of a step.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy.

    Raises
    ------
    PolicyError
        If the authors' table has no such number of groups.

    Examples
    --------
    >>> layered_prefill(layers=48).scheduler.stages[1].groups.most
    16

    Notes
    -----
    Source: Lee et al., "From Tokens to Layers", section 4, and the authors'
    ``nanovllm/engine/scheduler.py`` (427f4416). Their decision logs in
    ``tests/conformance/logs/layered`` are reproduced.
    """
    rule = by_table(groups) if isinstance(groups, int) else groups
    scheduler = Scheduler(
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        stages=(Decodes(charged=False, over_prefills=False), Layered(layers=layers, groups=rule)),
        allocation="sequence",
    )
    return Policy(name="layered-prefill", scheduler=scheduler, on_arrival=routing)


def by_table(most: int) -> Groups:
    """Return the authors' rule: groups by the batch's tokens, in steps."""
    if most not in _TABLE:
        raise PolicyError(f"groups must be one of {', '.join(map(str, _TABLE))}, or a rule, was {most}")
    limits = zip((512, 1024, 2048, 4096), _TABLE[most], strict=True)
    return Groups(limits=tuple(limits), most=most)


def by_tokens(layers: int, *, tokens_per_group: int = 512) -> Groups:
    """Return the paper's rule: a group for each 512 tokens, ``max(1, ceil(L / 512))``.

    Examples
    --------
    >>> by_tokens(48).tokens_per_group
    512
    """
    return Groups(tokens_per_group=tokens_per_group, most=layers)


@typed(PolicyError)
def authors_chunked(
    *,
    max_num_batched_tokens: int = 512,
    max_num_seqs: int = 256,
    routing: Routing = "fewest_requests",
) -> Policy:
    """Chunk prefills as the layered-prefill authors' baseline does: decodes, then chunks, in one budget.

    Examples
    --------
    >>> authors_chunked().name
    'chunked-prefill'

    Notes
    -----
    Source: their ``nanovllm/engine/scheduler.py`` (427f4416), after Sarathi-Serve.
    """
    scheduler = Scheduler(
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        stages=(Decodes(over_prefills=False), Prefills(), Admit()),
        allocation="sequence",
    )
    return Policy(name="chunked-prefill", scheduler=scheduler, on_arrival=routing)


@typed(PolicyError)
def authors_orca(
    *,
    max_num_batched_tokens: int = 16384,
    max_num_seqs: int = 256,
    routing: Routing = "fewest_requests",
) -> Policy:
    """Run whole prompts beside decodes, as the layered-prefill authors' Orca mode does.

    Examples
    --------
    >>> authors_orca().scheduler.max_num_batched_tokens
    16384

    Notes
    -----
    Source: their ``nanovllm/engine/scheduler.py`` (427f4416), after Orca (Yu et
    al., OSDI 2022), with paged memory in place of Orca's reservations.
    """
    scheduler = Scheduler(
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        stages=(
            Admit(chunked=False, count_decodes=False),
            Decodes(charged=False, seated=True, over_prefills=False),
        ),
        allocation="sequence",
    )
    return Policy(name="authors-orca", scheduler=scheduler, on_arrival=routing)
