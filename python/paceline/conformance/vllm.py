"""Logs of vLLM V1: conversion of settings and steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from paceline.conformance.log import DecisionLog
from paceline.policies.vllm import vllm

__all__ = ["FIELDS", "columns", "instance", "steps"]

FIELDS = ("start (ns)", "scheduled [request, tokens, computed before]", "preempted", "free blocks")


def instance(log: DecisionLog) -> dict[str, Any]:
    """Return the configuration of the log's engine."""
    settings = log.engine
    policy = vllm(
        policy=settings["policy"],
        prefix_caching=settings["prefix_caching"],
        max_num_batched_tokens=settings["max_num_batched_tokens"],
        max_num_seqs=settings["max_num_seqs"],
        long_prefill_token_threshold=settings.get("long_prefill_token_threshold", 0),
        reserve_full_prompt=settings.get("reserve_full_prompt", True),
        watermark=settings.get("watermark", 0.0),
        async_scheduling=settings.get("async", False),
    )
    return {
        "blocks": settings["num_blocks"] - 1,
        "block_tokens": settings["block_size"],
        "max_model_len": settings["max_model_len"],
        "scheduler": policy.scheduler_of(0).to_wire(num_blocks=settings["num_blocks"], defaults=(1, 1)),
    }


def columns(log: DecisionLog) -> dict[str, Any]:
    """Return the columns that only this kind of log has."""
    ids = [request[4] for request in log.requests]
    return {
        "priority": np.array([request[3] for request in log.requests], dtype=np.int64),
        "prefix_ends": np.cumsum([len(part) for part in ids], dtype=np.uint64),
        "prefix_ids": np.array([i for part in ids for i in part], dtype=np.uint64),
        "prefix_block_tokens": log.engine["block_size"],
    }


def steps(log: DecisionLog, records: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the steps of the engine in the form of the log."""
    return [_step(record) for record in records]


def _step(record: dict[str, Any]) -> list[Any]:
    scheduled = [entry[:3] for entry in record["scheduled"]]
    return [record["start"], scheduled, sorted(record["preempted"]), record["free_blocks"]]
