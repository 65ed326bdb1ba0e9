"""Figure 5: tokens of one request over time."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import polars as pl

from paceline import _native
from paceline.study.charts import lines
from paceline.study.layered_prefill import paper
from paceline.study.layered_prefill.latency import both
from paceline.study.layered_prefill.setting import Case, Runs
from paceline.study.model import Fact, Facts, Page

__all__ = ["page", "plan"]

_TICKS_PER_SECOND = 1e12


def plan(runs: Runs) -> None:
    """Announce the replays: one more of each schedule, which is written down step by step."""
    runs.work.plan(sum(runs.sized(case).requests for case in both().values()))


def page(runs: Runs) -> Page:
    """Make the page."""
    cases = both()
    request = _typical(runs, cases["chunked"])
    frames, ends = [], {}
    for schedule, case in cases.items():
        times = _token_times(runs, case, request)
        ends[schedule] = times[-1]
        frames.append(
            pl.DataFrame(
                {
                    "seconds since arrival": times,
                    "tokens": list(range(1, len(times) + 1)),
                    "schedule": [schedule] * len(times),
                }
            )
        )
    trace = runs.trace(runs.sized(cases["chunked"]), 0).frame.row(request, named=True)
    return Page(
        name="tokens",
        title="Figure 5: tokens of one request over time",
        parts=(
            (
                f"Request {request} of the first drawn trace, the one whose latency in chunks is the "
                f"median: {trace['prompt_tokens']:,} tokens of prompt, {trace['output_tokens']:,} of "
                "output. The paper shows one request of its own trace; only the shape can be compared, and "
                "the mean end-to-end latencies of Table 6's page."
            ),
            lines(
                "figure-5",
                "Figure 5: tokens emitted (predicted)",
                pl.concat(frames),
                x="seconds since arrival",
                y="tokens",
                by="schedule",
            ),
            Facts(
                name="figure-5-end",
                caption="When the last token comes (predicted)",
                facts=tuple(
                    Fact(
                        name=f"last token, {schedule}",
                        unit="s",
                        ours=end,
                        kind="predicted",
                        note=f"the paper's mean over requests is {paper.E2E[schedule]} s",
                    )
                    for schedule, end in ends.items()
                ),
            ),
        ),
    )


def _typical(runs: Runs, case: Case) -> int:
    """Return the request of the first trace whose end-to-end latency is the median."""
    latencies = runs.results(case)[0].requests["e2e"].to_numpy()
    return int(np.argsort(latencies, kind="stable")[len(latencies) // 2])


def _token_times(runs: Runs, case: Case, request: int) -> list[float]:
    """Return when the tokens of a request came, in seconds from its arrival."""
    case = runs.sized(case)
    trace = runs.trace(case, 0)
    instance = runs.instance(case.model, case.workload)
    policy = case.policy
    tokens, seqs = policy.scheduler.limits(instance.default_batching())
    wire = instance.to_wire(max_num_batched_tokens=tokens, max_num_seqs=seqs)
    scheduler = policy.scheduler.to_wire(num_blocks=wire["blocks"] + 1, defaults=instance.default_batching())
    outcome = _native.run(
        [{**wire, "scheduler": scheduler}],
        _native.columns(trace, policy),
        routing="fewest_requests",
        record_decisions=True,
    )
    runs.work.done("step by step", case.requests)
    steps = json.loads(outcome.decisions(0))
    emitted = [int(outcome.first_token_ticks[request])]
    for step, after in pairwise(steps):
        # While it decodes steps follow on one another: one ends where the next starts.
        if any(entry[0] == request and entry[3] == "decode" for entry in step["scheduled"]):
            emitted.append(min(after["start"], int(outcome.finish_ticks[request])))
    if len(emitted) < int(outcome.generated_tokens[request]):
        emitted.append(int(outcome.finish_ticks[request]))
    arrival = round(trace.frame["arrival"][request] * _TICKS_PER_SECOND)
    return [(ticks - arrival) / _TICKS_PER_SECOND for ticks in emitted]
