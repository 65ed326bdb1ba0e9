"""The engine on the reference's cases, and its outcome as the reference's rows."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import reject

from differential.strategies import Case
from paceline import _core
from paceline import _native as native
from paceline.conformance import DecisionLog, layered, vllm, vllm_v0
from paceline.testing.reference import Outcome, Request, replay_cluster

NEVER = 2**64 - 1
NOWHERE = 2**32 - 1
STATUS = ("finished", "running", "waiting", "not arrived", "rejected", "held", "gave up", "cancelled")
REASON = (
    None,
    "max_model_len",
    "blocks",
    "max_num_batched_tokens",
    "policy",
    "model",
    "timed out",
    "cancelled",
)
# The modules that read a log's settings for `python -m paceline.conformance` configure the engine here too.
# A request as a row of a log. `dataclasses.astuple` would copy its values deeply, which takes longer than the
# replay of many requests.
_row_of_log = attrgetter(*(field.name for field in fields(Request)))
KINDS: dict[str, ModuleType] = {"vllm": vllm, "vllm-v0": vllm_v0, "layered": layered}


@dataclass(frozen=True, slots=True)
class Row:
    """A request's row; times in ticks."""

    scheduled: int | None
    first_token: int | None
    finish: int | None
    longest_gap: int | None
    preemptions: int
    generated: int
    cached: int
    instance: int | None
    status: str
    reason: str | None


def _as_log(case: Case, index: int) -> DecisionLog:
    """Return an instance's settings and workload as the conformance checker reads them from a log."""
    config, cost = case.instances[index]
    return DecisionLog(
        path=Path("case"),
        engine=asdict(config),
        cost={f"{name}_ns": value for name, value in asdict(cost).items()},
        requests=[[*_row_of_log(request)] for request in case.requests],
        steps=[],
        first_token_ns=[],
        finish_ns=[],
    )


def _instance(case: Case, index: int) -> dict[str, Any]:
    log = _as_log(case, index)
    cost = {"kind": "affine", **{name: log.cost[f"{name}_ns"] for name in ("step", "token", "kv_token")}}
    return {**KINDS[log.kind].instance(log), "cost": cost}


def engine(case: Case, *, leap: bool, record: bool = False) -> _core.Outcome:
    """Replay a case through the engine."""
    log = _as_log(case, 0)
    columns = {
        "arrival_ticks": np.array([request.arrival for request in case.requests], dtype=np.uint64),
        "prompt_tokens": np.array([request.prompt_tokens for request in case.requests], dtype=np.uint32),
        "output_tokens": np.array([request.output_tokens for request in case.requests], dtype=np.uint32),
        **KINDS[log.kind].columns(log),
    }
    return native.run(
        [_instance(case, index) for index in range(len(case.instances))],
        columns,
        routing=case.routing,
        until_ticks=case.until,
        leap=leap,
        record_decisions=record,
    )


def reference(case: Case) -> Outcome:
    """Replay a case through the reference; drop a case in which the real scheduler would never finish."""
    try:
        if case.until is not None:
            # A replay that ends at `until` would not show that the real scheduler never finishes.
            replay_cluster(case.requests, case.instances, case.routing, None)
        return replay_cluster(case.requests, case.instances, case.routing, case.until)
    except RuntimeError:
        reject()


def decisions(case: Case, outcome: _core.Outcome, index: int) -> list[list[Any]]:
    """Return the steps of one instance as rows of a decision log."""
    log = _as_log(case, index)
    return KINDS[log.kind].steps(log, json.loads(outcome.decisions(index)))


def count(outcome: _core.Outcome, name: str, index: int) -> int:
    """Return an entry of a column that is empty where all are 0."""
    column = outcome.columns[name]
    return int(column[index]) if column.size else 0


def rows_of_engine(outcome: _core.Outcome) -> list[Row]:
    """Return the engine's rows."""
    rows = []
    for index, status in enumerate(outcome.columns["status"].tolist()):
        instance = int(outcome.columns["instance"][index])
        rows.append(
            Row(
                _time(outcome.columns["scheduled"][index]),
                _time(outcome.columns["first_token"][index]),
                _time(outcome.columns["finish"][index]),
                _time(outcome.columns["max_itl"][index]),
                count(outcome, "preemptions", index),
                int(outcome.columns["generated_tokens"][index]),
                count(outcome, "cached_tokens", index),
                None if instance == NOWHERE else instance,
                STATUS[status],
                REASON[outcome.columns["reason"][index]],
            )
        )
    return rows


def _time(ticks: np.uint64) -> int | None:
    return None if int(ticks) == NEVER else int(ticks)


def gaps(times: list[int]) -> list[int]:
    """Return the times between one token and the next."""
    return [later - earlier for earlier, later in pairwise(times)]


def rows_of_reference(outcome: Outcome) -> list[Row]:
    """Return the reference's rows."""
    return [
        Row(
            sequence.scheduled,
            first_token,
            finish,
            max(gaps(sequence.token_times), default=None),
            sequence.preemptions,
            sequence.generated,
            sequence.hit_tokens,
            instance,
            status,
            reason,
        )
        for sequence, first_token, finish, instance, status, reason in zip(
            outcome.sequences,
            outcome.first_token,
            outcome.finish,
            outcome.instance,
            outcome.status,
            outcome.rejected,
            strict=True,
        )
    ]
