"""FastServe's multi-level feedback queue."""

from __future__ import annotations

from paceline._arguments import typed
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policies.ranked import ranked_scheduler
from paceline.policy import Expr, Levels, Policy, Rule, Select, req, where
from paceline.policy.expressions.tree import lift
from paceline.policy.stages import Preemption

__all__ = ["fastserve"]

_MOST_LEVELS = 50
"""Up to this many levels, the quantum of the last, a power of two, is exact in a double."""


@typed(PolicyError)
def fastserve(
    *,
    base_s: float = 0.010,
    levels: int = 16,
    starved_s: float = 3.0,
    starved_every: int = 1000,
    free_blocks: int | None = None,
    cpu_reserve: float = 0.1,
    preemption: Preemption | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int = 256,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Queue in levels of doubling quanta: a request enters where its prompt fits, and sinks as it runs.

    The requests of each step are selected anew, from the first level on. A request
    that is left out keeps its memory until others need it. Prompts are not cut.

    Parameters
    ----------
    base_s
        Seconds of the first level's quantum; each next one's is twice as long.
    levels
        Levels at which a request may enter, by the predicted time of its prompt
        (skip-join). It may sink below them.
    starved_s, starved_every
        Seconds without a step after which a request goes to the first level, and the
        steps after which such requests are looked for. So do requests that never ran.
    free_blocks
        Blocks that each step leaves free for the next; None: ``max_num_seqs``.
    cpu_reserve
        Share of the CPU's memory for KV that must be free to start a prompt; 0: none.
        It does not apply where ``preemption`` is `Recompute`.
    preemption
        What happens to the KV of a preempted request; None: a swap over PCIe to
        512 GiB of CPU memory a GPU.
    max_num_batched_tokens
        Prompt tokens of a step; None: the GPU's default. Decodes use none of them.
    max_num_seqs
        Requests of a step.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy. A prompt longer than ``max_num_batched_tokens`` is rejected; in
        the code it blocks the queue.

    Examples
    --------
    >>> fastserve().scheduler.stages[0].reserve_blocks
    256

    Notes
    -----
    Source: LLMServe/FastServe (6da4b75e), ``fastserve/scheduler.py``, class ``MLFQ``.
    Differences: requests of a level that ran in the latest step rank by arrival,
    where the code reverses their order after each step; behind them follow, as in
    the code, those that stopped running latest, then new ones. Starved requests rank
    in the first level as all others do, not before those that ran less recently
    than they were promoted. KV that is swapped out comes back when its request is
    selected, where the code also brings some of it back ahead if blocks are free.
    New prompts that are passed over keep their order, which the code reverses.
    """
    if not 1 <= levels <= _MOST_LEVELS:
        raise PolicyError(f"levels of fastserve() must be 1 to {_MOST_LEVELS}, was {said(levels)}")
    recomputes = preemption is not None and preemption.kind == "recompute"
    return Policy(
        name="fastserve",
        scheduler=ranked_scheduler(
            Levels(
                base_s,
                entry=_entry(base_s, levels),
                then=-req.stopped,
                promote=(req.waiting_time >= starved_s) | (req.stopped == 0),
                every=starved_every,
            ),
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            preemption=preemption,
            select=Select(
                chunked=False,
                charged=False,
                reserve_blocks=max_num_seqs if free_blocks is None else free_blocks,
                swap_reserve=0.0 if recomputes else cpu_reserve,
            ),
        ),
        on_arrival=routing,
    )


def _entry(base_s: float, levels: int) -> Expr:
    """Return the first level of which the quantum holds the prompt."""
    entry: Expr | int = levels - 1
    for level in reversed(range(levels - 1)):
        entry = where(req.prefill_time <= 2**level * base_s, level, entry)
    return lift(entry)
