"""The policies that the paper compares, with its settings, and the cluster they run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from paceline import Cluster, Instance, Links, policies, req
from paceline.policy import Pace, Policy, Swap
from paceline.study.pascal.hardware import BATCHED_TOKENS, HOST_BYTES, LINK_GBPS, SEQUENCES
from paceline.study.pascal.paper import TPOT_S, TTFAT_S

__all__ = ["POLICIES", "cluster_of", "scheduler"]

_MIGRATION: Final[dict[str, Literal["adaptive", "always", "never"]]] = {
    "PASCAL": "adaptive",
    "PASCAL(NoMigration)": "never",
    "PASCAL(NonAdaptive)": "always",
}

POLICIES: Final = ("FCFS", "RR", *_MIGRATION)
"""As the paper calls them."""


def scheduler(
    name: str,
    instance: Instance,
    *,
    copy_bytes_per_s: float | None = None,
    first_answer_s: float | None = None,
    vllm_chunks: bool | None = None,
    room_tokens: int | None = 500,
    readings: Mapping[str, Any] | None = None,
) -> Policy:
    """Return a policy of the paper.

    Parameters
    ----------
    name
        One of `POLICIES`.
    instance
        Whose KV is swapped to its host.
    copy_bytes_per_s
        Between GPU and host, each way; by default that of the GPU's PCIe.
    first_answer_s
        When users expect the first answer token, for a QoE with a term for it; the paper's evaluation has
        none.
    vllm_chunks
        Whether FCFS is vLLM 0.6.1 itself, with chunked prefill or without. By default its queue is strictly
        in order of arrival, those swapped out included ("new admissions pause until space frees up", V.A),
        and its steps are formed as the others'. With chunked prefill, vLLM lets newcomers in past those
        swapped out.
    room_tokens
        Tokens of its answer for which a request must find room on an instance that has "sufficient memory to
        handle the answering phase" (IV.B), one that "could have immediately served the answering phase
        without stalling" (V.D): by default a quantum. None: it is enough that it fits at the moment, as in
        `policies.pascal`. Then it often stays where it is, and is put out for the next who reasons.
    readings
        Parameters of PASCAL where the paper leaves room. By default as `policies.pascal` has them, but
        without blocks that an admission leaves free: the paper has a request stay where it is only if the
        other instance lacks the memory for it.
    """
    gpu = instance.resolved_gpu
    assert gpu is not None
    swap = Swap.sized(
        memory_bytes=HOST_BYTES,
        block_bytes=instance.kv_bytes_per_token * instance.block_tokens,
        bytes_per_s=copy_bytes_per_s or gpu.pcie_bytes_per_s,
    )
    turns = policies.round_robin_quanta(
        max_num_batched_tokens=BATCHED_TOKENS, max_num_seqs=SEQUENCES, watermark=0.0, preemption=swap
    )
    if name == "RR":
        policy = turns
    elif name == "FCFS" and vllm_chunks is None:
        in_order = replace(turns.scheduler, order=req.arrival, admission="wait")
        policy = replace(turns, name="fcfs", scheduler=in_order)
    elif name == "FCFS":
        policy = policies.fcfs(chunked_prefill=bool(vllm_chunks), max_num_seqs=SEQUENCES, preemption=swap)
    else:
        settings: dict[str, Any] = {
            "max_num_batched_tokens": BATCHED_TOKENS,
            "max_num_seqs": SEQUENCES,
            "watermark": 0.0,
            "tpot": TPOT_S,
            "ttfat": TTFAT_S,
        }
        chosen = settings | dict(readings or {})
        policy = policies.pascal(migration=_MIGRATION[name], preemption=swap, room=room_tokens, **chosen)
    return replace(policy, pace=Pace(tpot=TPOT_S, first=TTFAT_S, ttft=first_answer_s))


def cluster_of(instance: Instance, instances: int) -> Cluster:
    """Return so many instances, joined by the paper's links."""
    return Cluster(instances * [instance], links=Links(gbps=LINK_GBPS))
