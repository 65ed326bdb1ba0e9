"""Logs of vLLM V1 with speculative decoding: conversion of settings and steps."""

from __future__ import annotations

from typing import Any

from paceline.conformance import vllm
from paceline.conformance.log import DecisionLog

__all__ = ["FIELDS", "columns", "instance", "steps"]

FIELDS = (
    "start (ns)",
    "scheduled [request, tokens, computed before, drafts, accepted, kept]",
    "preempted",
    "free blocks",
    "begin (ns)",
)

_ROW_OF_PROPOSALS, _ROW_OF_ACCEPTED = 5, 7
"""The factors of a request's row in the logs' lists of proposals and of accepted drafts."""


def instance(log: DecisionLog) -> dict[str, Any]:
    """Return the configuration of the log's engine."""
    config, spec = vllm.instance(log), log.engine["spec"]
    if spec is None:
        return config
    # A step that is decided ahead has the most drafts, whatever a drafter proposes.
    drafts = None if log.engine.get("async") else spec.get("drafts")
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


def steps(log: DecisionLog, records: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the steps of the engine in the form of the log."""
    lengths = [request[1] for request in log.requests]
    return [_step(record, lengths) for record in records]


def _step(record: dict[str, Any], lengths: list[int]) -> list[Any]:
    """Return a step; `lengths` are the tokens that are known of each request, to which its own are added."""
    drafted = record.get("drafted")
    if drafted is None:
        # Without drafts, a request yields a token once all that is known of it is computed.
        whole = [before + tokens == lengths[row] for row, tokens, before, _ in record["scheduled"]]
        drafted = [[0, 0, 1] if yields else [0, -1, 0] for yields in whole]
    scheduled = [
        [*entry[:3], drafts, accepted, kept]
        for entry, (drafts, accepted, kept) in zip(record["scheduled"], drafted, strict=True)
    ]
    for row, *_, kept in scheduled:
        lengths[row] += kept
    decided = record.get("decided")
    begins = [] if decided is None else [record["start"]]
    start = record["start"] if decided is None else decided
    return [start, scheduled, sorted(record["preempted"]), record["free_blocks"], *begins]
