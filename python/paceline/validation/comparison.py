"""Latencies, measured and predicted, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError

__all__ = ["METRICS", "STATISTICS", "Comparison", "Latencies", "Statistics", "compare"]

Floats = NDArray[np.float64]

#: What is compared, by the names of JSON.
METRICS = ("ttft", "tpot", "e2e")
#: Of each metric, in the order of reports.
STATISTICS = ("mean", "median", "p90", "p95", "p99")
_QUANTILES = {"median": 50, "p90": 90, "p95": 95, "p99": 99}

#: A metric's statistics, in seconds.
Statistics = Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Latencies:
    """When requests arrived and got tokens, in seconds from the first arrival.

    Parameters
    ----------
    arrival, first_token, last_token
        A time for each request.
    output_tokens
        Tokens that each got.

    Examples
    --------
    >>> run = Latencies(np.array([0.0]), np.array([0.5]), np.array([1.5]), np.array([5]))
    >>> run.statistics()["tpot"]["mean"]
    0.25
    """

    arrival: Floats
    first_token: Floats
    last_token: Floats
    output_tokens: NDArray[np.int64]

    def metrics(self) -> dict[str, Floats]:
        """Return each metric by request; TPOT only of those with two tokens or more."""
        several = self.output_tokens > 1
        decode = (self.last_token - self.first_token)[several]
        return {
            "ttft": self.first_token - self.arrival,
            "tpot": decode / (self.output_tokens[several] - 1),
            "e2e": self.last_token - self.arrival,
        }

    def statistics(self) -> dict[str, Statistics]:
        """Return the statistics of each metric, percentiles between ranks by straight lines."""
        return {
            name: {
                "mean": float(values.mean()),
                **{key: float(np.percentile(values, q)) for key, q in _QUANTILES.items()},
            }
            for name, values in self.metrics().items()
            if len(values)
        }


@dataclass(frozen=True, slots=True)
@typed_fields()
class Comparison:
    """A prediction beside the measurement, and beside another simulator's prediction if there is one.

    Parameters
    ----------
    name
        The run's.
    measured, predicted
        By metric and statistic, in seconds; throughputs per second.
    peer
        The same of another simulator; None where there is none.
    notes
        Remarks on the numbers, such as steps that were extrapolated.
    """

    name: str
    measured: Mapping[str, Statistics]
    predicted: Mapping[str, Statistics]
    peer: Mapping[str, Statistics] | None = None
    notes: tuple[str, ...] = ()

    @typed()
    def error(self, metric: str, statistic: str) -> float:
        """Return the relative error of the prediction: above 0 if it is too long."""
        return self.predicted[metric][statistic] / self.measured[metric][statistic] - 1

    def to_json(self) -> dict[str, dict[str, dict[str, float | None]]]:
        """Return ``{"ttft": {"mean": {"measured": s, "predicted": s, "peer": s}, ...}, ...}``."""
        return {
            metric: {
                statistic: {
                    "measured": self.measured[metric][statistic],
                    "predicted": self.predicted[metric][statistic],
                    "peer": None if self.peer is None else self.peer.get(metric, {}).get(statistic),
                }
                for statistic in STATISTICS
                if statistic in self.measured[metric]
            }
            for metric in METRICS
            if metric in self.measured
        }

    def rows(self) -> list[tuple[str, str, float, float, float, float | None]]:
        """Return metric, statistic, measured, predicted, our error and the peer's, a row for each."""
        rows = []
        for metric, statistics in self.to_json().items():
            for statistic, cell in statistics.items():
                measured, predicted, peer = cell["measured"], cell["predicted"], cell["peer"]
                assert measured is not None, "Invariant: only a peer may be missing"
                assert predicted is not None, "Invariant: only a peer may be missing"
                theirs = None if peer is None else peer / measured - 1
                rows.append((metric, statistic, measured, predicted, predicted / measured - 1, theirs))
        return rows


@typed()
def compare(
    name: str,
    measured: Latencies,
    predicted: Latencies,
    peer: Mapping[str, Statistics] | None = None,
    notes: tuple[str, ...] = (),
) -> Comparison:
    """Compare a prediction with a measurement, request by request of the same trace.

    Raises
    ------
    ConfigError
        If they are not of as many requests, or a request was not finished.
    """
    if len(measured.arrival) != len(predicted.arrival):
        raise ConfigError(
            f"prediction of {name} must be of {len(measured.arrival)} requests, "
            f"was of {len(predicted.arrival)}"
        )
    unfinished = int((~np.isfinite(predicted.last_token)).sum())
    if unfinished:
        raise ConfigError(f"prediction of {name} must finish every request, left {unfinished} unfinished")
    return Comparison(name, measured.statistics(), predicted.statistics(), peer, notes)
