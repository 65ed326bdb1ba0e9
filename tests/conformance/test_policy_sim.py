"""The simulator for policies against the decision logs of real schedulers: every step, every stamp.

It is given what the engine is given: the policy of each log, as the engine's configuration spells it.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from paceline.conformance import DecisionLog, layered, read_log, vllm, vllm_v0
from paceline.testing.reference.policy_sim import Outcome, TraceRequest, covers, replay
from paceline.testing.reference.policy_sim.step import Step

LOGS = Path(__file__).parent / "logs"
FILES = sorted(LOGS.glob("*/*.json.gz"))
KINDS: dict[str, ModuleType] = {"vllm": vllm, "vllm-v0": vllm_v0, "layered": layered}


def configuration(log: DecisionLog) -> dict[str, Any]:
    """Spell out for a log what the engine reads."""
    cost = {"kind": "affine", "kv_token": 0} | {
        name.removesuffix("_ns"): value for name, value in log.cost.items() if name != "swap_block_ns"
    }
    rules = {"on_arrival": {"rule": "round_robin"}, "on_prefilled": None, "on_answering": None, "every": []}
    return {"instances": [{**KINDS[log.kind].instance(log), "cost": cost}], "routing": rules, "until": None}


def requests(log: DecisionLog) -> list[TraceRequest]:
    """Return a log's workload."""
    return [TraceRequest(*row[:4], *(tuple(ids) for ids in row[4:])) for row in log.requests]


def record(step: Step, row: list[Any]) -> dict[str, Any]:
    """Write a step as the engine does."""
    parts = {request.index: part for request, part in step.parts.items()}
    start, scheduled, preempted, copied, free = row
    return {
        "start": start,
        "scheduled": [[*entry, parts[entry[0]]] for entry in scheduled],
        "preempted": preempted,
        "copied": copied,
        "group": step.group,
        "free_blocks": free,
    }


def steps(log: DecisionLog, outcome: Outcome) -> list[list[Any]]:
    """Return the steps of a replay as the log writes them."""
    (replica,) = outcome.replicas
    both = zip(replica.formed_steps, replica.steps, strict=True)
    return [KINDS[log.kind].step(record(step, row)) for step, row in both]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name.split('.')[0]}")
def test_the_simulator_decides_what_the_real_scheduler_decided(file: Path) -> None:
    log = read_log(file)
    config = configuration(log)
    assert covers(config)
    outcome = replay(config, requests(log), prefix_block_tokens=log.engine["block_size"])
    for number, (ours, theirs) in enumerate(zip(steps(log, outcome), log.steps, strict=True)):
        assert ours == theirs, f"step {number}"
    done = outcome.requests
    assert [one.token_times[0] if one.token_times else None for one in done] == log.first_token_ns
    assert [one.token_times[-1] if one.done else None for one in done] == log.finish_ns
