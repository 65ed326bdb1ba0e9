"""Figure 5: tokens of one request over time."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import polars as pl

from paceline import _native
from paceline._clock import TICKS_PER_SECOND
from paceline.study.charts import lines
from paceline.study.layered_prefill.latency import both
from paceline.study.layered_prefill.setting import PAPER, Case, Kind, Runs
from paceline.study.model import Fact
from paceline.study.pages import Content

__all__ = ["CASES", "page"]


CASES = both()


def page(runs: Runs) -> dict[str, Content]:
    """Return when the tokens of the request are emitted; its trace is replayed once more, step by step."""
    request = _typical(runs, CASES["chunked"])
    times = {schedule: _token_times(runs, case, request) for schedule, case in CASES.items()}
    frames = [
        pl.DataFrame({"seconds since arrival": emitted, "tokens": range(1, len(emitted) + 1)}).with_columns(
            schedule=pl.lit(schedule)
        )
        for schedule, emitted in times.items()
    ]
    trace = runs.trials.trace(runs.source(CASES["chunked"]), 0).frame.row(request, named=True)
    ends = [
        Fact(
            name=f"last token, {schedule}",
            unit="s",
            ours=emitted[-1],
            kind="predicted",
            note=f"the paper's mean over requests is {PAPER['e2e', schedule].number} s",
        )
        for schedule, emitted in times.items()
    ]
    return {
        "request": str(request),
        "prompt_tokens": f"{trace['prompt_tokens']:,}",
        "output_tokens": f"{trace['output_tokens']:,}",
        "figure-5": lines(pl.concat(frames), x="seconds since arrival", y="tokens", by="schedule"),
        "figure-5-end": ends,
    }


def _typical(runs: Runs, case: Case) -> int:
    """Return the request of the first trace whose end-to-end latency is the median."""
    latencies = runs.served(case)[0].result.requests["e2e"].to_numpy()
    return int(np.argsort(latencies, kind="stable")[len(latencies) // 2])


def _token_times(runs: Runs, case: Case, request: int) -> list[float]:
    """Return when the tokens of a request were emitted, in seconds from its arrival."""
    trace = runs.trials.trace(runs.source(case), 0)
    (instance,) = runs.cluster(Kind(model=case.model)).instances
    policy = case.policy
    tokens, seqs = policy.scheduler_of(0).limits(instance.default_batching())
    wire = instance.to_wire(max_num_batched_tokens=tokens, max_num_seqs=seqs)
    scheduler = policy.scheduler_of(0).to_wire(
        num_blocks=wire["blocks"] + 1, defaults=instance.default_batching()
    )
    outcome = _native.run(
        [{**wire, "scheduler": scheduler}],
        _native.columns(trace, policy),
        routing="fewest_requests",
        record_decisions=True,
    )
    steps = json.loads(outcome.decisions(0))
    emitted = [int(outcome.columns["first_token"][request])]
    for step, after in pairwise(steps):
        # While the request decodes, steps follow on one another: a step ends where the next starts.
        if any(entry[0] == request and entry[3] == "decode" for entry in step["scheduled"]):
            emitted.append(min(after["start"], int(outcome.columns["finish"][request])))
    if len(emitted) < int(outcome.columns["generated_tokens"][request]):
        emitted.append(int(outcome.columns["finish"][request]))
    arrival = round(trace.frame["arrival"][request] * TICKS_PER_SECOND)
    return [(ticks - arrival) / TICKS_PER_SECOND for ticks in emitted]
