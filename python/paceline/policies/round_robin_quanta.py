"""Round robin by quanta of tokens, a baseline of PASCAL."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.ranked import ranked_scheduler
from paceline.policy import Policy, PrefixCache, Quantum, Rule, inst, pick
from paceline.policy.stages import Preemption

__all__ = ["round_robin_quanta"]


@typed(PolicyError)
def round_robin_quanta(
    *,
    quantum: int = 500,
    preemption: Preemption | None = None,
    max_num_batched_tokens: int = 512,
    max_num_seqs: int = 256,
    watermark: float = 0.01,
    routing: Rule | None = None,
    prefix_caching: bool | PrefixCache = False,
) -> Policy:
    """Rank requests by the quanta of tokens that they have used up, fewest first, whatever the phase.

    Parameters
    ----------
    quantum
        Tokens of a quantum.
    preemption
        What happens to the KV of a preempted request; None: a swap over PCIe to
        256 GiB of CPU memory a GPU.
    max_num_batched_tokens, max_num_seqs, watermark
        As in `pascal`.
    routing
        Which instance an arrival joins; None: the one with the least KV, as in
        the paper.
    prefix_caching
        As in `pascal`.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> round_robin_quanta(quantum=100).scheduler.order
    Quantum(100)

    Notes
    -----
    Source: the baseline RR of Cho et al., "PASCAL" (HPCA 2026), section V-A. A
    running request is preempted when a better-ranked one needs its blocks, as in
    `pascal`; the paper says only that a request that finishes its quantum is
    deprioritized.
    """
    return Policy(
        name="round-robin-quanta",
        scheduler=ranked_scheduler(
            Quantum(quantum),
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            watermark=watermark,
            preemption=preemption,
            cpu_gib=256,
            prefix_caching=prefix_caching,
        ),
        on_arrival=pick(min=inst.kv_tokens) if routing is None else routing,
    )
