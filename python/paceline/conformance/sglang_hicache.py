"""Logs of SGLang's scheduler with its hierarchical cache: conversion of settings and steps."""

from __future__ import annotations

from typing import Any

from paceline.conformance import sglang
from paceline.conformance.log import DecisionLog

__all__ = ["FIELDS", "columns", "instance", "steps", "stores"]

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
            "store": _time(log, "store"),
            "load": _time(log, "load"),
            "below": _below(log),
        },
    }


def _time(log: DecisionLog, name: str) -> dict[str, int]:
    return {"fixed": log.cost[name]["fixed_ns"], "block": log.cost[name]["block_ns"]}


def _below(log: DecisionLog) -> dict[str, Any] | None:
    """Return the link to the storage below the host, if the log has one."""
    storage = log.engine["hicache"].get("storage")
    if storage is None:
        return None
    stop = {"kind": storage["prefetch_policy"]}
    if stop["kind"] == "timeout":
        stop |= {
            "base": storage["prefetch_timeout_base_ns"],
            "per_ki_token": storage["prefetch_timeout_per_ki_token_ns"],
        }
    prefetch = {"least": storage["prefetch_threshold"], "stop": stop}
    return {"store": 0, "write": _time(log, "write"), "read": _time(log, "read"), "prefetch": prefetch}


def stores(log: DecisionLog) -> list[dict[str, Any]]:
    """Return the storage below the host, if the log has one."""
    storage = log.engine.get("hicache", {}).get("storage")
    plain = {"eviction": {"kind": "none"}, "write": 0, "read": 0}
    return [] if storage is None else [{"chunks": storage.get("pages"), **plain}]


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
