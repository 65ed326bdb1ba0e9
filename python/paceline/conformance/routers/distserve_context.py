"""Logs of DistServe's schedulers (LLMServe/DistServe 82831f1, distserve/context_stage_scheduler.py).

The prefill scheduler of `distserve` forms the step that the log's forms, from the
prompts that wait and the blocks that finished prompts still hold. The decisions of the
decode stage are in the log and are not compared: it waits for each transfer before its
next step, and a request that joins its batch must have room for its blocks twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from paceline import _native
from paceline.conformance.routers.bounds import Blocks, Count, Index, Request
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.replay import TICKS_PER_S, columns
from paceline.errors import NoProgressError, TraceError
from paceline.policies.distserve import distserve
from paceline.policy import Scheduler

__all__ = ["GRADE", "LEFT_OUT", "Log", "recorded", "replayed"]

GRADE: Final = "rule"
LEFT_OUT: Final = "the decode stage"


class _Config(msgspec.Struct):
    context_max_batch: Count
    context_max_tokens: Count


class _Cluster(msgspec.Struct):
    block_size: Annotated[int, msgspec.Meta(ge=1, le=2**16)]
    context_blocks: Blocks


class _Seen(msgspec.Struct):
    waiting: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    unaccepted: list[Index]


class _Decision(msgspec.Struct):
    kind: str
    seen: dict[str, Any]
    requests: list[Index] = []
    head: Index | None = None


class Log(msgspec.Struct):
    """What a file holds."""

    router: str
    config: _Config
    cluster: _Cluster
    requests: list[Request]
    decisions: list[_Decision]


def recorded(log: Log) -> Decided:
    """Return the batches of the context stage, empty ones included."""
    return {"context batch": [decision.requests for decision in _of_context(log)]}


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Form a step for each decision."""
    del leap, follow  # each replay is of one step, and nothing is random
    config = log.config
    policy = distserve(
        prefill=1,
        decode=1,
        prefill_batch=config.context_max_batch,
        prefill_tokens=config.context_max_tokens,
    )
    ours, done = [], 0
    for decision in _of_context(log):
        seen = _seen(decision)
        # Prompts wait in the order of arrival, those of earlier batches have left.
        waiting = range(done, min(done + seen.waiting, len(log.requests)))
        batch = _batch(log, policy.scheduler_of(0), waiting, seen.unaccepted)
        ours.append(batch)
        done += len(decision.requests)
    return {"context batch": ours}


def _of_context(log: Log) -> list[_Decision]:
    """Return the decisions of the context stage."""
    found = [decision for decision in log.decisions if decision.kind in ("context_batch", "context_blocked")]
    for decision in found:
        for row in (*decision.requests, *_seen(decision).unaccepted):
            if row >= len(log.requests):
                raise TraceError(
                    f"decisions must name requests from 0 to {len(log.requests) - 1}, named {row}"
                )
    return found


def _seen(decision: _Decision) -> _Seen:
    """Return what a decision of the context stage saw."""
    try:
        return msgspec.convert(decision.seen, _Seen)
    except msgspec.ValidationError as error:
        raise TraceError(f"seen of {decision.kind} must have waiting and unaccepted: {error}") from error


def _batch(log: Log, scheduler: Scheduler, waiting: Sequence[int], unaccepted: Sequence[int]) -> list[int]:
    """Return the prompts of the step that the scheduler forms."""
    size = log.cluster.block_size
    held = sum(-(-log.requests[row].prompt_tokens // size) for row in unaccepted)
    rows = waiting[: log.config.context_max_batch + 1]
    if not rows:
        return []
    wire = scheduler.to_wire(
        num_blocks=log.cluster.context_blocks + 1, defaults=(1, 1), ticks_per_s=TICKS_PER_S
    )
    # The blocks of finished prompts must stay as they are.
    wire.update(watermark_blocks=held, watermark_when_idle=True)
    engine = {
        "blocks": log.cluster.context_blocks,
        "block_tokens": size,
        "max_model_len": None,
        "scheduler": wire,
        "cost": {"kind": "affine", "step": 1000, "token": 0, "kv_token": 0},
    }
    given = columns([Request(0, log.requests[row].prompt_tokens, 1) for row in rows])
    try:
        outcome = _native.run(
            [engine], given, routing="round_robin", leap=False, until_ticks=1000, record_decisions=True
        )
    except NoProgressError:
        return []
    steps = json.loads(outcome.decisions(0))
    scheduled = {entry[0] for entry in steps[0]["scheduled"]} if steps else set()
    batch = []
    for at, row in enumerate(rows):
        if at not in scheduled:
            break
        batch.append(row)
    return batch
