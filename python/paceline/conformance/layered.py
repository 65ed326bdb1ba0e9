"""Logs of the layered-prefill authors' scheduler: conversion of settings and steps."""

from __future__ import annotations

from typing import Any

from paceline.conformance.log import DecisionLog
from paceline.policies.layered_prefill import authors_chunked, authors_orca, layered_prefill
from paceline.policy import Policy

__all__ = ["FIELDS", "columns", "instance", "steps"]

FIELDS = (
    "start (ns)",
    "decoding",
    "prefills [request, tokens, processed before]",
    "stage",
    "stages",
    "preemptions",
    "free blocks",
)


def instance(log: DecisionLog) -> dict[str, Any]:
    """Return the configuration of the log's engine; its ticks are nanoseconds."""
    settings = log.engine
    policy = _policy(settings)
    return {
        "blocks": settings["num_blocks"],
        "block_tokens": settings["block_size"],
        "max_model_len": settings["max_model_len"],
        "scheduler": policy.scheduler_of(0).to_wire(num_blocks=settings["num_blocks"], defaults=(1, 1)),
    }


def _policy(settings: dict[str, Any]) -> Policy:
    tokens, seqs = settings["max_num_batched_tokens"], settings["max_num_seqs"]
    if settings["mode"] == "orca":
        return authors_orca(max_num_batched_tokens=tokens, max_num_seqs=seqs)
    if settings["mode"] == "chunked-prefill":
        return authors_chunked(max_num_batched_tokens=tokens, max_num_seqs=seqs)
    return layered_prefill(
        layers=settings["num_layers"],
        groups=settings["num_stages"],
        max_num_batched_tokens=tokens,
        max_num_seqs=seqs,
    )


def columns(_: DecisionLog) -> dict[str, Any]:
    """Return the columns that only this kind of log has: none."""
    return {}


def steps(log: DecisionLog, records: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the steps of the engine in the form of the log."""
    return [_step(record) for record in records]


def _step(record: dict[str, Any]) -> list[Any]:
    decodes = [entry[0] for entry in record["scheduled"] if entry[3] == "decode"]
    prefills = [entry[:3] for entry in record["scheduled"] if entry[3] != "decode"]
    stage, stages = record["group"] or (-1, 1)
    preemptions = len(record["preempted"])
    return [record["start"], decodes, prefills, stage, stages, preemptions, record["free_blocks"]]
