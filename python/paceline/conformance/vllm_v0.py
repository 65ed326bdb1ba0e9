"""Logs of vLLM V0: conversion of settings and steps."""

from __future__ import annotations

from typing import Any

from paceline.conformance.log import DecisionLog
from paceline.policies.vllm_v0 import vllm_v0
from paceline.policy.stages import Recompute, Swap

__all__ = ["FIELDS", "columns", "instance", "steps"]

FIELDS = (
    "start (ns)",
    "scheduled [request, tokens, computed before]",
    "preempted",
    "blocks swapped in",
    "blocks swapped out",
    "free blocks",
)

# vLLM V0 lists prompts first, the newest before the others, then decodes.
_PARTS = ("admitted", "chunk", "swapped_in_chunk", "decode", "swapped_in_decode")


def instance(log: DecisionLog) -> dict[str, Any]:
    """Return the configuration of the log's engine; its ticks are nanoseconds."""
    settings = log.engine
    copy_s = log.cost["swap_block_ns"] / 1e9
    swap = Swap(cpu_blocks=settings["num_cpu_blocks"], out_s=copy_s, in_s=copy_s)
    policy = vllm_v0(
        chunked_prefill=settings["chunked_prefill"],
        preemption=swap if settings["preemption"] == "swap" else Recompute(),
        max_num_batched_tokens=settings["max_num_batched_tokens"],
        max_num_seqs=settings["max_num_seqs"],
    )
    wire = policy.scheduler_of(0).to_wire(num_blocks=settings["num_blocks"], defaults=(1, 1), ticks_per_s=1e9)
    return {
        "blocks": settings["num_blocks"],
        "block_tokens": settings["block_size"],
        "max_model_len": settings["max_model_len"],
        "scheduler": wire,
    }


def columns(_: DecisionLog) -> dict[str, Any]:
    """Return the columns that only this kind of log has: none."""
    return {}


def steps(log: DecisionLog, records: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the steps of the engine in the form of the log."""
    return [_step(record) for record in records]


def _step(record: dict[str, Any]) -> list[Any]:
    ordered = sorted(record["scheduled"], key=lambda entry: _PARTS.index(entry[3]))
    copied_out, copied_in = record["copied"]
    return [
        record["start"],
        [entry[:3] for entry in ordered],
        record["preempted"],
        copied_in,
        copied_out,
        record["free_blocks"],
    ]
