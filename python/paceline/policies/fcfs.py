"""First come, first served, as PASCAL compares itself with."""

from __future__ import annotations

from dataclasses import replace

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm_v0 import vllm_v0
from paceline.policy import Policy, Rule, Swap, inst, pick
from paceline.policy.stages import PcieSwap, Recompute

__all__ = ["fcfs"]


@typed(PolicyError)
def fcfs(
    *,
    chunked_prefill: bool = True,
    preemption: Recompute | Swap | PcieSwap | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int = 256,
    watermark: float = 0.01,
    routing: Rule | None = None,
) -> Policy:
    """Serve in order of arrival, as vLLM 0.6.1 does, and swap to the CPU where memory runs out.

    With `Cluster.with_room_for`, this is the paper's oracle: nobody waits for
    memory or gives any up.

    Parameters
    ----------
    chunked_prefill
        vLLM 0.6.1 turns it on by itself for a model of more than 32,768
        positions, such as the paper's.
    preemption
        What becomes of the memory of those put out; None: a swap over PCIe to
        512 GiB of CPU memory a GPU.
    max_num_batched_tokens, max_num_seqs, watermark
        As in `vllm_v0`.
    routing
        Which instance an arrival joins; None: the one that keeps the least KV,
        as in the paper.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> fcfs().on_arrival
    pick(min=inst.kv_tokens)

    Notes
    -----
    Source: the baseline FCFS of Cho et al., "PASCAL" (HPCA 2026), section V-A,
    which is vLLM 0.6.1's scheduler. The paper has no admissions while KV is
    spilled; with chunked prefill vLLM 0.6.1 lets requests in all the same where
    they fit, and so does this.
    """
    base = vllm_v0(
        chunked_prefill=chunked_prefill,
        preemption=preemption or Swap.over_pcie(cpu_gib=512),
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        watermark=watermark,
    )
    return replace(base, name="fcfs", on_arrival=pick(min=inst.kv_tokens) if routing is None else routing)
