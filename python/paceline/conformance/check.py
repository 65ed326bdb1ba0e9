"""Comparing the engine with a decision log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from paceline import _core, _native
from paceline._arguments import typed
from paceline.conformance import (
    layered,
    sglang,
    sglang_apart,
    sglang_hicache,
    sglang_pair,
    vllm,
    vllm_offload,
    vllm_pipeline,
    vllm_spec,
    vllm_v0,
)
from paceline.conformance.difference import Difference
from paceline.conformance.log import DecisionLog

__all__ = ["Difference", "check"]

_KINDS = {
    "vllm": vllm,
    "vllm-spec": vllm_spec,
    "vllm-offload": vllm_offload,
    "vllm-pipeline": vllm_pipeline,
    "vllm-v0": vllm_v0,
    "layered": layered,
    "sglang": sglang,
    "sglang-radix": sglang,
    "sglang-hicache": sglang_hicache,
    "sglang-apart": sglang_apart,
    "sglang-pair": sglang_pair,
}


@typed()
def check(log: DecisionLog, *, leap: bool) -> Difference | None:
    """Replay a log's workload through the engine and compare every decision.

    Parameters
    ----------
    log
        The decisions of the real scheduler.
    leap
        Whether the engine computes runs of equal steps at once.

    Returns
    -------
    Difference | None
        The first difference; None if all steps, first tokens and finishes are the
        same.

    Notes
    -----
    A log counts in whole nanoseconds, and so does the engine here: its clock does
    not depend on the length of a tick.
    """
    outcome = replayed(log, leap=leap)
    kind = _KINDS[log.kind]
    records, copies = json.loads(outcome.decisions(0)), None
    if log.kind == "vllm-offload":
        tier = json.loads(outcome.tier(0))
        ours = vllm_offload.merged(records, tier)
        copies = _compare_jobs(vllm_offload.jobs(tier), log.jobs)
    elif log.kind == "sglang-pair":
        several = range(1, 1 + log.engine.get("decodes", 1))
        ours = sglang_pair.steps(log, [records, *(json.loads(outcome.decisions(index)) for index in several)])
    elif log.kind == "sglang-hicache":
        ours = sglang_hicache.steps(log, records, json.loads(outcome.tier(0)))
    else:
        ours = kind.steps(log, records)
    return _compare_steps(ours, log.steps, kind.FIELDS) or copies or _compare_stamps(log, outcome)


@typed()
def replayed(log: DecisionLog, *, leap: bool) -> _core.Outcome:
    """Replay a log's workload through the engine, with its decisions recorded: see :func:`check`."""
    kind = _KINDS[log.kind]
    columns = {
        "arrival_ticks": np.array([request[0] for request in log.requests], dtype=np.uint64),
        "prompt_tokens": np.array([request[1] for request in log.requests], dtype=np.uint32),
        "output_tokens": np.array(log.output_tokens, dtype=np.uint32),
        **kind.columns(log),
    }
    cost = {
        "kind": "affine",
        "step": log.cost["step_ns"],
        "token": log.cost["token_ns"],
        "kv_token": log.cost.get("kv_token_ns", 0),
    }
    instances = [{**kind.instance(log), "cost": cost}]
    parts: dict[str, Any] = {"routing": "round_robin", "stores": sglang_hicache.stores(log)}
    if log.kind == "sglang-apart":
        columns["arrival_ticks"] -= np.uint64(sglang_apart.lead(log))
        instances.append(sglang_apart.other(log))
        parts = sglang_apart.cluster(log)
    if log.kind == "sglang-pair":
        instances += [{**one, "cost": cost} for one in sglang_pair.others(log)]
        parts = sglang_pair.cluster(log)
    return _native.run(instances, columns, leap=leap, record_decisions=True, **parts)


def _compare_steps(
    ours: Sequence[list[Any]], theirs: Sequence[list[Any]], fields: Sequence[str]
) -> Difference | None:
    for i, (mine, other) in enumerate(zip_longest(ours, theirs)):
        if mine is None or other is None:
            return Difference(where=f"step {i}", field="the step", ours=mine, theirs=other)
        # Only a log of two steps in flight has the last field.
        for field, a, b in zip(fields[: len(other)], mine, other, strict=True):
            if a != b:
                return Difference(where=f"step {i} at {other[0]} ns", field=field, ours=a, theirs=b)
    return None


def _compare_jobs(ours: list[list[Any]], theirs: list[list[Any]]) -> Difference | None:
    for i, (mine, other) in enumerate(zip_longest(ours, theirs)):
        if mine is None or other is None:
            return Difference(where=f"job {i}", field="the job", ours=mine, theirs=other)
        for field, a, b in zip(vllm_offload.JOB_FIELDS, mine, other, strict=True):
            if a != b:
                return Difference(where=f"job {i}", field=field, ours=a, theirs=b)
    return None


def _compare_stamps(log: DecisionLog, outcome: _core.Outcome) -> Difference | None:
    stamps = {
        "first token (ns)": (outcome.columns["first_token"], log.first_token_ns),
        "finish (ns)": (outcome.columns["finish"], log.finish_ns),
    }
    for field, (ticks, theirs) in stamps.items():
        if log.kind == "sglang-apart" and not theirs:
            continue  # it happens on the other instance
        ours = ticks.tolist()
        for i, (a, b) in enumerate(zip_longest(ours, theirs)):
            if a != b:
                return Difference(where=f"request {i}", field=field, ours=a, theirs=b)
    return None
