"""Logs of one instance of SGLang that prefills or decodes: conversion of settings and steps.

The other instance has all the memory that it needs. One that prefills takes a nanosecond, so that requests
are offered to that of the log as they arrive there; one that decodes accepts them as they are offered.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from paceline.conformance import sglang
from paceline.conformance.log import DecisionLog
from paceline.policies.sglang_disaggregated import decodes_alone, handover_of, prefills_alone
from paceline.policy import Scheduler, Swap

__all__ = ["FIELDS", "cluster", "columns", "instance", "lead", "other", "steps"]

FIELDS = sglang.FIELDS
_BLOCKS = 1_000_000


def instance(log: DecisionLog) -> dict[str, Any]:
    """Return the configuration of the log's engine."""
    found = sglang.instance(log)
    scheduler = sglang.policy(log.engine).scheduler_of(0)
    if log.engine["disaggregation"] == "decode":
        seconds = log.engine.get("swap_ns", 0) / 1e9
        scheduler = decodes_alone(scheduler, Swap(cpu_blocks=_BLOCKS, out_s=seconds, in_s=seconds))
    else:
        scheduler = prefills_alone(scheduler)
    wire = scheduler.to_wire(num_blocks=found["blocks"], defaults=(1, 1), ticks_per_s=1e9)
    return {**found, "scheduler": wire}


def other(log: DecisionLog) -> dict[str, Any]:
    """Return the configuration of the other instance."""
    scheduler = Scheduler(max_num_batched_tokens=_BLOCKS, max_num_seqs=_BLOCKS)
    return {
        "blocks": _BLOCKS,
        "block_tokens": log.engine["page_size"],
        "max_model_len": None,
        "scheduler": scheduler.to_wire(num_blocks=_BLOCKS, defaults=(1, 1)),
        "cost": {"kind": "affine", "step": 1, "token": 0, "kv_token": 0},
    }


def cluster(log: DecisionLog) -> dict[str, Any]:
    """Return how requests go from one to the other."""
    decodes = log.engine["disaggregation"] == "decode"
    rules = dataclasses.replace(
        handover_of(log.engine.get("reserved_tokens", 0)), reserve_clip=log.engine.get("clip", 4096)
    )
    handover = rules.to_wire(1e9)
    if not decodes:
        del handover["reserve"]
    picked = [{"rule": "round_robin", "within": [pool]} for pool in ((1, 0) if decodes else (0, 1))]
    return {
        "routing": {"on_arrival": picked[0], "on_prefilled": picked[1], "on_answering": None, "every": []},
        "roles": [0, 1],
        "handover": handover,
        "links": {"bytes_per_s": 2.0**99, "latency": log.engine["transfer_ns"]},
    }


def lead(log: DecisionLog) -> int:
    """Return how much earlier requests arrive at the other instance."""
    return int(log.engine["disaggregation"] == "decode")


def columns(log: DecisionLog) -> dict[str, Any]:
    """Return the columns that only this kind of log has."""
    if log.engine["disaggregation"] == "decode":
        return sglang.columns(log)
    # No order of prompts reads their outputs: SGLang has them end with one token.
    return sglang.columns(log) | {"output_tokens": np.full(len(log.requests), 2, dtype=np.uint32)}


def steps(log: DecisionLog, records: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the steps of the engine in the form of the log."""
    return sglang.steps(log, records)
