"""Objectives of percentiles over all requests and all tokens, held against replays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    row_of,
    sample_of,
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
        names = {name for name, _, _ in self.slo.parts()}
        sample = sample_of(result, judged, {name: name for name in sorted(names - {_TOKENS})})
        if _TOKENS not in names:
            return sample
        if sample.requests < len(result):
            raise ConfigError(
                "warmup_s must be 0 where slo bounds tbt, which is over the tokens of all requests: cut the "
                "trace with Trace.window instead"
            )
        return replace(sample, gaps=result.itl, lost_gaps=_lost_gaps(result))

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
        return row_of(measured, measured.latencies)


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


def _lost_gaps(result: Result) -> int:
    """Return the gaps that did not come: of each request, those up to its last token after its latest one."""
    yielded = result.column("generated_tokens").to_numpy().astype(np.int64)
    wanted = result.column("output_tokens").to_numpy().astype(np.int64)
    unfinished = (result.column("status").cast(pl.String) != "finished").to_numpy()
    return int((np.maximum(wanted, 1) - np.maximum(yielded, 1))[unfinished].sum())


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
