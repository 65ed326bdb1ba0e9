"""FastServe's multi-level feedback queue."""

from __future__ import annotations

from paceline._arguments import typed
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policies.vllm_v0 import chunked_stages
from paceline.policy import Class, Expr, Policy, Rule, Scheduler, Swap, ilog2, req, where
from paceline.policy.expressions.tree import lift
from paceline.policy.stages import PcieSwap, Recompute

__all__ = ["fastserve"]

_MOST_LEVELS = 50
"""So that the quantum of the last, a power of two, is exact in a double."""


@typed(PolicyError)
def fastserve(
    *,
    base_s: float = 0.010,
    levels: int = 16,
    starved_s: float = 3.0,
    preemption: Recompute | Swap | PcieSwap | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Queue in levels of doubling quanta: enter where the prompt fits, sink as time is used up.

    Parameters
    ----------
    base_s
        Seconds of the first level's quantum; each next one's is twice as long.
    levels
        Levels that a request may enter at, by the predicted time of its prompt
        (skip-join). It may sink below them.
    starved_s
        Seconds without a turn after which a request goes to the first level.
    preemption
        What becomes of the memory of those put out; None: a swap over PCIe to
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
    Source: LLMServe/FastServe (187a2742), ``fastserve/scheduler.py``. Other than
    there: time used beyond a level's quantum counts towards the next; who is in
    the same level goes in order of arrival, where the code turns the order of a
    batch around after each step; who is starved is looked for at each step, not
    each 1,000, and yields one token there; memory is swapped when it is needed,
    not ahead, but that of who is put out for a seat at once, where the code leaves
    it until others need it; and new prompts do not stop where the CPU's memory is
    nearly full.
    """
    if not 1 <= levels <= _MOST_LEVELS:
        raise PolicyError(f"levels of fastserve() must be 1 to {_MOST_LEVELS}, was {said(levels)}")
    # Quanta of the levels passed add up: 2**k - 2**entry of them were used up at the start of level k.
    level = ilog2(_entry(base_s, levels) + req.attained_time / base_s)
    return Policy(
        name="fastserve",
        scheduler=Scheduler(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            stages=chunked_stages(),
            classes=[Class("starving", when=req.waiting_time >= starved_s, hold=1, order=req.arrival)],
            order=level,
            admission="displace",
            preemption=preemption or Swap.over_pcie(cpu_gib=512),
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
