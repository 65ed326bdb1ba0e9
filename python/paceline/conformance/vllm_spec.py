"""Logs of vLLM V1 with speculative decoding: conversion of settings and steps."""

from __future__ import annotations

from typing import Any

from paceline.conformance import vllm
from paceline.conformance.log import DecisionLog

__all__ = ["FIELDS", "columns", "instance", "step"]

FIELDS = (
    "start (ns)",
    "scheduled [request, tokens, computed before, drafts, accepted, kept]",
    "preempted",
    "free blocks",
)

_ROW_OF_PROPOSALS, _ROW_OF_ACCEPTED = 5, 7
"""The factors of a request's row in the logs' lists of proposals and of accepted drafts."""


def instance(log: DecisionLog) -> dict[str, Any]:
    """Return the configuration of the log's engine."""
    config, spec = vllm.instance(log), log.engine["spec"]
    if spec is None:
        return config
    drafts = spec.get("drafts")
    by_batch = [[first, most] for first, _, most in spec.get("per_batch", [])]
    return {
        **config,
        "speculation": {
            "tokens": spec["k"],
            "by_batch": by_batch,
            "proposals": None if drafts is None else {"stride": _ROW_OF_PROPOSALS, "values": drafts},
            "acceptance": {"kind": "listed", "stride": _ROW_OF_ACCEPTED, "values": spec["accept"]},
            "lookahead": spec["lookahead_slots"],
            "input_slots": spec["draft_input_slots"],
            "hash_lookahead": spec["hash_lookahead"],
            "drops_last_block": spec["drops_last_block"],
            "pads": not by_batch,
        },
    }


def columns(log: DecisionLog) -> dict[str, Any]:
    """Return the columns that only this kind of log has."""
    return vllm.columns(log)


def step(record: dict[str, Any]) -> list[Any]:
    """Return a step of the engine in the form of the log."""
    drafted = record.get("drafted") or [[0, -1, 0]] * len(record["scheduled"])
    scheduled = [
        [*entry[:3], drafts, accepted, kept]
        for entry, (drafts, accepted, kept) in zip(record["scheduled"], drafted, strict=True)
    ]
    return [record["start"], scheduled, sorted(record["preempted"]), record["free_blocks"]]
