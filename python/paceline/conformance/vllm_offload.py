"""Logs of vLLM V1 with its OffloadingConnector: conversion of settings and steps."""

from __future__ import annotations

from typing import Any

from paceline.conformance import vllm
from paceline.conformance.log import DecisionLog

__all__ = ["FIELDS", "JOB_FIELDS", "columns", "instance", "jobs", "merged"]

FIELDS = (
    "start (ns)",
    "begin (ns)",
    "scheduled [request, tokens, computed before]",
    "preempted",
    "free blocks",
    "waiting for a load",
    "hits [request, tokens in GPU, tokens in CPU]",
    "put off",
    "load jobs",
    "store jobs",
    "flushed jobs",
    "reported jobs",
    "CPU chunks in use",
    "CPU chunks evicted",
    "stores refused",
)

JOB_FIELDS = (
    "id",
    "kind",
    "request",
    "GPU blocks",
    "CPU chunks",
    "made (ns)",
    "begin (ns)",
    "end (ns)",
    "reported (ns)",
)


def instance(log: DecisionLog) -> dict[str, Any]:
    """Return the configuration of the log's engine."""
    offload = log.engine["offload"]
    times = {
        name: {"fixed": log.cost[name]["fixed_ns"], "block": log.cost[name]["block_ns"]}
        for name in ("store", "load")
    }
    return {
        **vllm.instance(log),
        "tier": {
            "chunks": offload["cpu_chunks"],
            "chunk_blocks": offload["blocks_per_chunk"],
            "eviction": offload["policy"],
            "prompts_only": offload["prompt_only"],
            "store_threshold": offload["store_threshold"],
            "sync_tokens": offload["sync_load_tokens"],
            "polls_at_end": offload["poll"] == "end",
            **times,
        },
    }


def columns(log: DecisionLog) -> dict[str, Any]:
    """Return the columns that only this kind of log has."""
    return vllm.columns(log)


def merged(records: list[dict[str, Any]], tier: dict[str, Any]) -> list[list[Any]]:
    """Return the steps of the engine in the form of the log.

    Parameters
    ----------
    records
        The steps that computed tokens.
    tier
        What steps did with the tier. Steps without tokens are here only; the log leaves those out in which
        requests were passed over, and nothing else happened.
    """
    reports: dict[int, list[int]] = {}
    for start, job in tier["reports"]:
        reports.setdefault(start, []).append(job)
    with_tokens = {step["start"]: step for step in tier["steps"] if step["without_tokens"] is None}
    rows = []
    for record in records:
        start = record["start"]
        did = with_tokens.get(start, {"begins": start})
        scheduled = [entry[:3] for entry in record["scheduled"]]
        row = _row(did, start, scheduled, record["preempted"], record["free_blocks"])
        row[11] = reports.get(start, [])
        rows.append((start, 1, "chunks" in did, row))
    for did in tier["steps"]:
        if did["without_tokens"] is None:
            continue
        row = _row(did, did["start"], [], *did["without_tokens"])
        if row[3] or row[6] or any(row[8:12]) or row[13] or row[14]:
            rows.append((did["start"], 0, True, row))
    loading: list[int] = []
    chunks = 0
    # A step without tokens ends before one with tokens starts at the same moment; the sort is stable.
    for *_, known, row in sorted(rows, key=lambda one: one[:2]):
        if known:
            loading, chunks = row[5], row[12]
        row[5], row[12] = loading, chunks
    return [row for *_, row in sorted(rows, key=lambda one: one[:2])]


def _row(
    did: dict[str, Any], start: int, scheduled: list[list[int]], preempted: list[int], free: int
) -> list[Any]:
    lists = [did.get(name, []) for name in ("put_off", "loads", "stores", "flushed", "reported")]
    hits = [list(hit) for hit in did.get("hits", [])]
    counts = [did.get(name, 0) for name in ("chunks", "evicted", "refused")]
    waiting = did.get("loading", [])
    return [start, did["begins"], scheduled, sorted(preempted), free, waiting, hits, *lists, *counts]


def jobs(tier: dict[str, Any]) -> list[list[Any]]:
    """Return the copies of the engine in the form of the log."""
    fields = ("id", "kind", "request", "blocks", "chunks", "made", "begins", "ends", "reported")
    return [[job[field] for field in fields] for job in sorted(tier["jobs"], key=lambda job: job["id"])]
