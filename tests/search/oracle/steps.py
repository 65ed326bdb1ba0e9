"""The decisions of each step: limits are kept, every token is computed once, no step is useless."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from search.oracle.failure import Failure
from search.oracle.replayed import Replayed

# Steps for each token to compute: enough for the longest preemption storms that end.
STEPS_PER_TOKEN = 60


DECODES = ("decode", "swapped_in_decode", "landed")


def broken(replayed: Replayed) -> Iterator[Failure]:
    """Yield the promises that the decisions of a replay break."""
    for index, (instance, log) in enumerate(
        zip(replayed.case.config["instances"], replayed.decisions, strict=True)
    ):
        yield from _of_instance(index, instance["scheduler"], log)
    yield from _steps(replayed)


def _steps(replayed: Replayed) -> Iterator[Failure]:
    tokens = sum(row["prompt_tokens"] + row["output_tokens"] for row in replayed.case.requests)
    steps: int = replayed.stats["steps"]
    if steps > STEPS_PER_TOKEN * tokens + 200:
        yield Failure("steps: bounded by tokens", f"{steps} steps for {tokens} tokens")


def _of_instance(index: int, scheduler: dict[str, Any], log: list[dict[str, Any]]) -> Iterator[Failure]:
    stages = {stage["kind"]: stage for stage in scheduler["stages"]}
    uncharged = any(not stages[kind]["charged"] for kind in ("decodes", "select") if kind in stages)
    layered = "layered" in stages
    budget, end = scheduler["max_num_batched_tokens"], 0
    for number, step in enumerate(log):
        where = f"instance {index}, step {number}: {step}"
        rows = [entry[0] for entry in step["scheduled"]]
        if len(set(rows)) != len(rows):
            yield Failure("steps: a request runs once a step", where)
        if step["start"] < end:
            yield Failure("steps: in order of time", where)
        end = step["start"]
        decodes = sum(entry[1] for entry in step["scheduled"] if entry[3] in DECODES)
        tokens = sum(entry[1] for entry in step["scheduled"])
        if not layered and tokens - (decodes if uncharged else 0) > budget:
            yield Failure("steps: within the budget", where)
        if any(entry[1] == 0 for entry in step["scheduled"]):
            yield Failure("steps: no request runs for nothing", where)
        if not rows:
            yield Failure("steps: a step computes something", where)
