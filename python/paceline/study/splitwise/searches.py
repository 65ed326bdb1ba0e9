"""The highest rate that a design serves within the paper's objectives, by slowdowns of requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from paceline.deployment import Cluster
from paceline.policy import Policy
from paceline.result import Result
from paceline.study.splitwise.designs import Design, Reading, cost_of
from paceline.study.trials import Drawn, Trial, Trials
from paceline.study.work import Work
from paceline.synthesis import Sample, Workload, preset
from paceline.trace import Trace, read_trace

__all__ = ["BOUNDS", "GRID", "SPAN_S", "Case", "Searches", "holds", "measured"]

BOUNDS: Final = {
    "TTFT": {50: 2.0, 90: 3.0, 99: 6.0},
    "TBT": {50: 1.25, 90: 1.5, 99: 5.0},
    "E2E": {50: 1.25, 90: 1.5, 99: 5.0},
}
"""Bounds on percentiles of latencies over those of an unloaded A100 machine: ``get_slo`` of plots.ipynb."""

SPAN_S: Final = 120.0
"""Seconds of arrivals: those of the source's traces for provisioning."""

GRID: Final = 5.0
"""Requests a second between two rates that are told apart."""
_MOST: Final = 256.0
_FILES: Final = {"conversation": "azure2023_conv.csv.zst", "code": "azure2023_code.csv.zst"}
_PRESETS: Final = {"conversation": "azure-conv", "code": "azure-code"}


@dataclass(frozen=True, slots=True)
class Case:
    """A design that serves a trace, with the times of decode steps by a reading."""

    trace: str
    design: Design
    reading: Reading


def measured(_: Trial, __: Trace, result: Result) -> dict[str, float]:
    """Return percentiles of requests' latencies over those on an unloaded A100 machine.

    TBT is a request's mean. A request that was rejected or did not finish is infinitely slow.
    """
    alone = cost_of("A100", "splitwise-sim")
    rows = result.requests
    prompt, output = (rows[name].to_numpy().astype(np.float64) for name in ("prompt_tokens", "output_tokens"))
    ttft, tbt = alone.step_s + alone.token_s * prompt, np.full(len(rows), alone.step_s)
    bases = {"TTFT": ("ttft", ttft), "TBT": ("tpot", tbt), "E2E": ("e2e", ttft + tbt * (output - 1))}
    found: dict[str, float] = {}
    for name, (column, base) in bases.items():
        values = rows[column].fill_null(np.inf).to_numpy() / base
        if name == "TBT":
            values = values[output > 1]
        # Not the interpolation of two values, of which one may be infinite.
        found |= {f"{name} P{of}": float(np.percentile(values, of, method="higher")) for of in BOUNDS[name]}
    return found | {"flips": float(result.flips.height)}


def holds(slowdowns: dict[str, float]) -> bool:
    """Return whether all nine percentiles are below their bounds."""
    return all(
        slowdowns[f"{name} P{of}"] < bound for name, bounds in BOUNDS.items() for of, bound in bounds.items()
    )


class Searches:
    """The replays of the study, each done once.

    Parameters
    ----------
    work
        ``data`` may have Azure's traces; a quick run offers a quarter of the seconds, at coarser rates.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self._trials: Trials[dict[str, float]] = Trials(measured, work)
        self._workloads = {name: _workload(name, work.data) for name in _FILES}
        self.grid = 4 * GRID if work.quick else GRID
        self.span_s = SPAN_S / 4 if work.quick else SPAN_S

    def highest(self, cases: Sequence[Case]) -> dict[Case, float]:
        """Return for each case the highest rate of the grid that holds, by bisection; 0 if none does."""
        passes = dict.fromkeys(cases, 0)
        fails = dict.fromkeys(cases, round(_MOST / self.grid))
        while open_cases := [case for case in passes if fails[case] - passes[case] > 1]:
            middles = {case: (passes[case] + fails[case]) // 2 for case in open_cases}
            found = self.at([(case, self.grid * middle) for case, middle in middles.items()])
            for (case, middle), slowdowns in zip(middles.items(), found, strict=True):
                (passes if holds(slowdowns) else fails)[case] = middle
        return {case: self.grid * at for case, at in passes.items()}

    def at(self, points: Sequence[tuple[Case, float]]) -> list[dict[str, float]]:
        """Return the slowdowns of cases at rates."""
        return self._trials.of([self._trial(case, rate) for case, rate in points])

    def _trial(self, case: Case, rate: float) -> Trial:
        drawn = Drawn(workload=self._workloads[case.trace], requests=round(rate * self.span_s), rate=rate)
        cluster, policy = _built(case.design, case.reading)
        return Trial(trace=drawn, cluster=cluster, policy=policy)


@cache
def _built(design: Design, reading: Reading) -> tuple[Cluster, Policy]:
    return design.cluster(reading), design.policy()


def _workload(name: str, data: Path | None) -> Workload:
    """Return the lengths of a trace, prompts and outputs drawn apart, as the source draws them."""
    file = None if data is None else data / _FILES[name]
    if file is None or not file.is_file():
        fitted = preset(_PRESETS[name])
        assert isinstance(fitted, Workload), "Invariant: these workloads have no sessions"
        return Workload(name=name, prompt_tokens=fitted.prompt_tokens, output_tokens=fitted.output_tokens)
    rows = read_trace(file).frame
    prompts, outputs = (Sample(rows[column].to_numpy()) for column in ("prompt_tokens", "output_tokens"))
    return Workload(name=name, prompt_tokens=prompts, output_tokens=outputs, source=file.name)
