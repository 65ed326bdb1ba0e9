"""The simulator for policies against the decision logs of real schedulers: every step, every stamp.

The simulator reads the policy of each log from the engine's configuration. The engine is compared with every
step of every log. The simulator is much slower: it is compared with the first steps of each log, and with all
steps under PACELINE_TESTS=thorough.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from differential.records import record
from paceline.conformance import (
    DecisionLog,
    layered,
    read_log,
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
from paceline.testing.reference.policy_sim import Outcome, TraceRequest, covers, replay
from paceline.testing.reference.policy_sim.step import Step
from paceline.testing.reference.policy_sim.tier import Actions

LOGS = Path(__file__).parent / "logs"
FILES = sorted(LOGS.glob("*/*.json.gz"))
KINDS: dict[str, ModuleType] = {
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


FEW = 250


def configuration(log: DecisionLog, until: int | None) -> dict[str, Any]:
    """Return the engine's configuration for a log."""
    cost = {"kind": "affine", "kv_token": 0} | {
        name.removesuffix("_ns"): value
        for name, value in log.cost.items()
        if name not in ("swap_block_ns", "store", "load")
    }
    if log.kind == "sglang-apart":
        instances = [{**sglang_apart.instance(log), "cost": cost}, sglang_apart.other(log)]
        return {"instances": instances, "until": until, **sglang_apart.cluster(log)}
    if log.kind == "sglang-pair":
        several = [sglang_pair.instance(log), *sglang_pair.others(log)]
        instances = [{**one, "cost": cost} for one in several]
        return {"instances": instances, "until": until, **sglang_pair.cluster(log)}
    rules = {"on_arrival": {"rule": "round_robin"}, "on_prefilled": None, "on_answering": None, "every": []}
    instances = [{**KINDS[log.kind].instance(log), "cost": cost}]
    return {"instances": instances, "routing": rules, "until": until, "stores": sglang_hicache.stores(log)}


def requests(log: DecisionLog) -> list[TraceRequest]:
    """Return a log's workload."""
    if log.kind == "sglang-apart":
        lead = sglang_apart.lead(log)
        outputs = sglang_apart.columns(log).get("output_tokens", log.output_tokens)
        return [
            replace(under_sglang(0, *row), arrival=row[0] - lead, output_tokens=int(output))
            for row, output in zip(log.requests, outputs, strict=True)
        ]
    if log.kind == "sglang-pair":
        return [under_sglang(0, *row) for row in log.requests]
    if KINDS[log.kind] in (sglang, sglang_hicache):
        priorities = sglang.columns(log).get("priority", [0] * len(log.requests))
        several = zip(log.requests, priorities, strict=True)
        return [under_sglang(int(priority), *request) for request, priority in several]
    rows = [TraceRequest(*row[:4], *(tuple(ids) for ids in row[4:])) for row in log.requests]
    return [replace(row, output_tokens=most) for row, most in zip(rows, log.output_tokens, strict=True)]


def under_sglang(priority: int, arrival: int, prompt: int, output: int, *further: Any) -> TraceRequest:
    """Return a request of SGLang: beside a tree it has a session or ids; its own priority comes last."""
    one = TraceRequest(arrival, prompt, output, priority=priority)
    if len(further) < 2:
        return one
    session, ids = further[:2]
    return replace(one, prefix=tuple(ids), session=None if session < 0 else session)


def steps(log: DecisionLog, outcome: Outcome) -> list[list[Any]]:
    """Return the steps of a replay in the log's format."""
    replica = outcome.replicas[0]
    if log.kind == "vllm-offload":
        return [row for row in map(tier_row, replica.scheduler.state.tier.steps) if counts(row)]
    of_each = [
        [record(step, row) for step, row in zip(one.formed_steps, one.steps, strict=True)]
        for one in outcome.replicas
    ]
    if log.kind == "sglang-pair":
        return sglang_pair.steps(log, of_each)
    records = of_each[0]
    if log.kind == "sglang-hicache":
        return sglang_hicache.steps(log, records, {"steps": [on_host(step) for step in replica.formed_steps]})
    return KINDS[log.kind].steps(log, records)


def on_host(step: Step) -> dict[str, Any]:
    """Return what a step does with the host's part of a tree in the engine's format."""
    hits = [[request.index, 0, loaded] for request, loaded in step.host_loads.items()]
    return {"start": step.start, "chunks": step.host, "hits": hits}


def tier_row(both: tuple[Actions, Step]) -> list[Any]:
    """Return a step of an instance with a tier in the log's format."""
    did, step = both
    lists = (did.loads, did.stores, did.flushed, did.reported)
    return [
        did.start,
        did.begins,
        [[request.index, step.tokens[request], before] for request, before in did.before.items()],
        sorted(request.index for request in step.preempted),
        step.free_blocks,
        sorted(request.index for request in did.loading),
        [[request.index, cached, loaded] for request, cached, loaded in did.hits],
        [request.index for request in did.put_off],
        *([job.number for job in jobs] for jobs in lists),
        did.chunks,
        did.evicted,
        did.refused,
    ]


def counts(row: list[Any]) -> bool:
    """Whether the log has a step: one that computes tokens, or did more than pass requests over."""
    return bool(row[2] or row[3] or row[6] or any(row[8:12]) or row[13] or row[14])


def copies(outcome: Outcome) -> list[list[Any]]:
    """Return the copies of a tier in the log's format."""
    (replica,) = outcome.replicas
    return [
        [
            job.number,
            job.kind,
            job.request.index,
            len(job.blocks),
            len(job.keys),
            *(job.made, job.begins, job.ends, job.reported),
        ]
        for job in replica.scheduler.state.tier.jobs
    ]


def compare(file: Path, most: int | None) -> None:
    """Replay a log's workload, and compare its steps or the first ``most`` of them."""
    log = read_log(file)
    # A log of several instances has the steps of one after those of another.
    most = None if log.kind == "sglang-pair" else most
    until: int | None = log.steps[most][0] if most and most < len(log.steps) else None
    if until is not None and log.kind == "vllm-pipeline":
        # Batches of earlier steps are still under way then.
        until = log.steps[most - 1][-1]
    config = configuration(log, until)
    assert covers(config)
    engine = log.engine.get("prefill", log.engine)
    pages = engine.get("block_size", engine.get("page_size"))
    outcome = replay(config, requests(log), prefix_block_tokens=pages)
    if log.kind == "vllm-offload" and most is None:
        outcome.replicas[0].scheduler.state.tier.drain(outcome.end)
        assert copies(outcome) == log.jobs
    ours, theirs = steps(log, outcome)[:most], log.steps[:most]
    assert len(ours) == len(theirs)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        assert one == other, f"step {number}"
    done = outcome.requests
    first = [one.token_times[0] if one.token_times else None for one in done]
    last = [one.token_times[-1] if one.done else None for one in done]
    for found, stamps in ((first, log.first_token_ns), (last, log.finish_ns)):
        # An instance that only prefills or only decodes has one of both.
        if stamps or log.kind != "sglang-apart":
            assert found == [within(moment, until) for moment in stamps]


def within(moment: int | None, until: int | None) -> int | None:
    return None if moment is None or (until is not None and moment > until) else moment


NAMED = pytest.mark.parametrize(
    "file", FILES, ids=lambda file: f"{file.parent.name}/{file.name.split('.')[0]}"
)


@NAMED
def test_the_simulator_decides_first_what_the_real_scheduler_decided(file: Path) -> None:
    compare(file, FEW)


@pytest.mark.slow
@NAMED
def test_the_simulator_decides_what_the_real_scheduler_decided(file: Path) -> None:
    compare(file, None)
