"""Objectives of percentiles over all requests and all tokens, held against replays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from paceline._core import Sketch
from paceline.errors import ConfigError
from paceline.objectives import SLO, Percentiles
from paceline.planning.measured import (
    Criterion,
    Judge,
    Judged,
    Measured,
    Rule,
    Sample,
    percentile_of,
    throughput_of,
)
from paceline.result import Result

__all__ = ["judge_of"]

_TOKENS: Final = "tbt"
_UNSAID: Final = (0.90, "joint")


@dataclass(frozen=True, slots=True)
class PercentileCriterion:
    """Replays pass if each percentile is at most its bound.

    Parameters
    ----------
    slo
        The bounds.
    """

    slo: Percentiles

    def sample(self, result: Result, judged: Judged = slice(None)) -> Sample:
        """Reduce a replay to what is judged: the given ones of its requests, in the order of the trace."""
        status = result.column("status").cast(pl.String).to_numpy()[judged]
        finished = status == "finished"
        names = {name for name, _, _ in self.slo.parts()}
        bounds_tokens = _TOKENS in names
        if bounds_tokens and len(status) < len(result):
            raise ConfigError(
                "warmup_s must be 0 where slo bounds tbt, which is over the tokens of all requests: cut the "
                "trace with Trace.window instead"
            )
        latencies = {}
        for name in sorted(names - {_TOKENS}):
            # Null for the TPOT of a finished request of one token: no gap.
            values = result.column(name).fill_null(0.0).to_numpy()[judged]
            latencies[name] = np.where(finished, values, np.inf)
        totals = result.totals()
        return Sample(
            met=int(finished.sum()),
            requests=len(status),
            rejected=int((status == "rejected").sum()),
            latencies=latencies,
            finished=totals.finished,
            seconds=totals.makespan_s,
            joules=totals.energy_j,
            gaps=result.itl if bounds_tokens else None,
            lost_gaps=int((result.column("output_tokens").to_numpy()[judged][~finished] - 1).sum()),
        )

    def judge(self, samples: Sequence[Sample]) -> Measured:
        """Hold the objective against the requests, and the tokens, of all samples together."""
        requests = sum(sample.requests for sample in samples)
        latencies, margin = {}, math.inf
        for name, at, bound in self.slo.parts():
            value = (
                _gap(samples, at)
                if name == _TOKENS
                else percentile_of([each.latencies[name] for each in samples], at / 100.0)
            )
            latencies[f"p{at:.10g}_{name}"] = value
            margin = min(margin, 1.0 - value / bound)
        return Measured(
            requests=requests,
            rejected=sum(sample.rejected for sample in samples),
            attainment=sum(sample.met for sample in samples) / requests,
            latencies=latencies,
            margin=margin,
            passes=margin >= 0.0,
            **throughput_of(samples),
        )

    def row(self, measured: Measured) -> dict[str, Any]:
        """Return a row of a table."""
        return {
            "attainment": measured.attainment,
            "margin": measured.margin,
            **measured.latencies,
            "requests": measured.requests,
            "rejected": measured.rejected,
            "passes": measured.passes,
        }


def judge_of(slo: SLO | Percentiles, target: float, rule: Rule) -> Judge:
    """Return what judges replays by an objective.

    Raises
    ------
    ConfigError
        If the target is no share, the rule is unknown, or either is given beside percentiles.
    """
    if isinstance(slo, SLO):
        return Criterion(slo=slo, target=target, rule=rule)
    if (target, rule) != _UNSAID:
        raise ConfigError(
            f"target and rule must be left out where slo has percentiles, were {target:g} and {rule!r}: each "
            "bound has a percentile of its own"
        )
    return PercentileCriterion(slo)


def _gap(samples: Sequence[Sample], at: float) -> float:
    """Return a percentile over the tokens of all samples, where gaps that did not come are infinite."""
    gaps = Sketch()
    for sample in samples:
        if sample.gaps is not None:
            gaps.merge(Sketch.from_json(sample.gaps.to_json()))
    lost = sum(sample.lost_gaps for sample in samples)
    place = at / 100.0 * (gaps.count + lost)
    if lost and place > gaps.count:
        return math.inf
    value = gaps.quantile_s(place / gaps.count) if gaps.count else None
    return 0.0 if value is None else value
