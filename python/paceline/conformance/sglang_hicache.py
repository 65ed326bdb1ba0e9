"""Logs of SGLang's scheduler with its hierarchical cache: conversion of settings and steps."""

from __future__ import annotations

from typing import Any

from paceline.conformance import sglang
from paceline.conformance.log import DecisionLog

__all__ = ["FIELDS", "columns", "instance", "steps"]

FIELDS = (
    *sglang.FIELDS[:4],
    "pages on the host",
    "loaded [request, tokens]",
    "decided (ns)",
)

_WRITES = {"write_through": "through", "write_through_selective": "selective", "write_back": "back"}


def instance(log: DecisionLog) -> dict[str, Any]:
    """Return the configuration of the log's engine."""
    hicache = log.engine["hicache"]
    times = {
        name: {"fixed": log.cost[name]["fixed_ns"], "block": log.cost[name]["block_ns"]}
        for name in ("store", "load")
    }
    return {
        **sglang.instance(log),
        "tier": {
            "chunks": hicache["host_pages"],
            "chunk_blocks": 1,
            "eviction": "lru",
            "prompts_only": False,
            "write": _WRITES[hicache["write_policy"]],
            "store_threshold": 0,
            "sync_tokens": 0,
            "overlap_layers": hicache["layers"],
            "polls_at_end": True,
            **times,
        },
    }


def columns(log: DecisionLog) -> dict[str, Any]:
    """Return the columns that only this kind of log has."""
    return sglang.columns(log)


def steps(log: DecisionLog, records: list[dict[str, Any]], tier: dict[str, Any]) -> list[list[Any]]:
    """Return the steps of the engine in the form of the log; ``tier``: what they changed on the host."""
    changes = {step["start"]: step for step in tier["steps"]}
    rows, pages = [], 0
    for record, row in zip(records, sglang.steps(log, records), strict=True):
        change = changes.get(record["start"], {"chunks": pages, "hits": []})
        pages = change["chunks"]
        loads = sorted([request, loaded] for request, _, loaded in change["hits"] if loaded)
        rows.append([*row[:4], pages, loads, *row[4:]])
    return rows
