"""FastServe's multi-level feedback queue."""

from __future__ import annotations

from paceline._arguments import typed
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policies.ranked import ranked_scheduler
from paceline.policy import Class, Expr, Policy, Rule, ilog2, req, where
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
    preemption: Preemption | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Queue in levels of doubling quanta: a request enters where its prompt fits, and sinks as it runs.

    Parameters
    ----------
    base_s
        Seconds of the first level's quantum; each next one's is twice as long.
    levels
        Levels at which a request may enter, by the predicted time of its prompt
        (skip-join). It may sink below them.
    starved_s
        Seconds of waiting after which a request ranks before all levels.
    preemption
        What happens to the KV of a preempted request; None: a swap over PCIe to
        512 GiB of CPU memory a GPU.
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
    >>> fastserve().scheduler.classes[0]
    Class('starving', when=req.waiting_time >= 3.0, hold=1, order=req.arrival)

    Notes
    -----
    Source: LLMServe/FastServe (187a2742), ``fastserve/scheduler.py``.
    Differences: time used beyond a level's quantum counts towards the next.
    Requests of the same level rank in order of arrival; the code reverses the
    order of a batch after each step. Starved requests are looked for at each
    step, not each 1,000, and generate one token before they return to their
    level. KV is swapped out when blocks are needed, not ahead; if a request is
    displaced for its seat, its KV is swapped out at once, where the code leaves it
    until other requests need the blocks. New prompts are admitted also when the
    CPU's memory is nearly full.
    """
    if not 1 <= levels <= _MOST_LEVELS:
        raise PolicyError(f"levels of fastserve() must be 1 to {_MOST_LEVELS}, was {said(levels)}")
    # Quanta of the levels passed add up: at the start of level k, 2**k - 2**entry of them were used up.
    level = ilog2(_entry(base_s, levels) + req.attained_time / base_s)
    return Policy(
        name="fastserve",
        scheduler=ranked_scheduler(
            level,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            classes=[Class("starving", when=req.waiting_time >= starved_s, hold=1, order=req.arrival)],
            preemption=preemption,
        ),
        on_arrival=routing,
    )


def _entry(base_s: float, levels: int) -> Expr:
    """Return the quantum of the first level that holds the prompt, in quanta of the first."""
    quanta = [2**level for level in range(levels)]
    entry: Expr | int = quanta[-1]
    for quantum in reversed(quanta[:-1]):
        entry = where(req.prefill_time <= quantum * base_s, quantum, entry)
    return lift(entry)
