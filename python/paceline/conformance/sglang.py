"""Logs of SGLang's scheduler: conversion of settings and steps."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from paceline.conformance.log import DecisionLog
from paceline.policies.sglang import sglang
from paceline.policy import Policy
from paceline.policy.orders import OF_PRIORITIES, priorities

__all__ = ["FIELDS", "columns", "instance", "policy", "steps"]

FIELDS = (
    "start (ns)",
    "scheduled [request, tokens, computed before]",
    "preempted",
    "free blocks",
    "decided (ns)",
)


def policy(settings: dict[str, Any]) -> Policy:
    """Return the policy with the settings of a log."""
    return sglang(
        schedule_policy=settings["schedule_policy"],
        chunked_prefill_size=settings["chunked_prefill_size"],
        max_running_requests=settings["max_running_requests"],
        prefix_caching=settings["radix_cache"],
        mixed_chunk=settings["mixed_chunk"],
        overlap_schedule=settings["overlap"],
        schedule_conservativeness=settings["conservativeness"],
        ignore_eos=settings["ignore_eos"],
        priorities=settings.get("priorities"),
    )


def instance(log: DecisionLog) -> dict[str, Any]:
    """Return the configuration of the log's engine."""
    settings = log.engine
    scheduler = policy(settings).scheduler_of(0)
    reserve = scheduler.output_reserve
    if reserve is not None and "clip" in settings:
        clipped = dataclasses.replace(reserve, clip=settings["clip"])
        scheduler = dataclasses.replace(scheduler, output_reserve=clipped)
    blocks = settings["num_tokens"] // settings["page_size"]
    return {
        "blocks": blocks,
        "block_tokens": settings["page_size"],
        "max_model_len": settings["max_model_len"],
        "scheduler": scheduler.to_wire(num_blocks=blocks, defaults=(1, 1)),
        **_speculation(settings.get("speculation")),
    }


def _speculation(drafts: dict[str, Any] | None) -> dict[str, Any]:
    """Return the drafts of a log's engine: of a head, as each decode verifies them all."""
    if drafts is None:
        return {}
    rule: dict[str, Any] = {"kind": "periodic", "yields": drafts.get("yields")}
    if drafts.get("accepted") is not None:
        rule = {"kind": "listed", "stride": drafts.get("stride", 0), "values": drafts["accepted"]}
    speculation = {
        "tokens": drafts["tokens"],
        "by_batch": [],
        "proposals": None,
        "acceptance": rule,
        "lookahead": 0,
        "slots": "two_steps",
        "input_slots": 0,
        "hash_lookahead": 1,
        "drops_last_block": False,
        "pads": False,
    }
    return {"speculation": speculation}


def columns(log: DecisionLog) -> dict[str, Any]:
    """Return the columns that only this kind of log has."""
    found: dict[str, Any] = {}
    order, output = policy(log.engine).scheduler_of(0).order, np.array(log.output_tokens, dtype=np.uint32)
    if order in OF_PRIORITIES:
        given = np.array([request[-1] for request in log.requests], dtype=np.int64)
        found["priority"] = priorities(str(order), given, output)
    elif order == "longest_output":
        found["priority"] = -output.astype(np.int64)
    if not log.engine["radix_cache"]:
        return found
    sessions = [request[3] for request in log.requests]
    if all(session >= 0 for session in sessions):
        return found | {"session": np.array(sessions, dtype=np.uint32)}
    ids = [request[4] for request in log.requests]
    return found | {
        "prefix_ends": np.cumsum([len(part) for part in ids], dtype=np.uint64),
        "prefix_ids": np.array([i for part in ids for i in part], dtype=np.uint64),
        "prefix_block_tokens": log.engine["page_size"],
    }


def steps(log: DecisionLog, records: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the steps of the engine in the form of the log: its requests in the order of their rows."""
    return [_step(record) for record in records]


def _step(record: dict[str, Any]) -> list[Any]:
    scheduled = sorted(entry[:3] for entry in record["scheduled"])
    decided = [] if record.get("decided") is None else [record["decided"]]
    return [record["start"], scheduled, sorted(record["preempted"]), record["free_blocks"], *decided]
