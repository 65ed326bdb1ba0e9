"""Charts of a result for notebooks: ``result.plot.cdf("ttft")``."""

from __future__ import annotations

from typing import Any

import polars as pl

from paceline.errors import ResultError
from paceline.report.charts.kit import Axis, Chart, lines, spans
from paceline.report.charts.shown import offline
from paceline.report.charts.theme import NOTEBOOK
from paceline.report.data.distributions import METRICS, distributions, histogram
from paceline.report.data.lengths import by_length
from paceline.report.data.moments import over_time, percentiles_over_time
from paceline.report.replayed import Replayed, Run
from paceline.report.sections.latency import cdf_chart, length_chart, tail_chart

__all__ = ["Plots"]

_OVER_TIME = {
    "arrivals": "arrivals (requests/s)",
    "finished": "finished requests (requests/s)",
    "tokens": "output tokens of finished requests (tokens/s)",
    "in_flight": "requests in flight",
    "waiting": "requests before their first step",
}


class Plots:
    """Altair charts of one result, from aggregates: their size does not grow with the requests.

    Each method returns an Altair chart, which a notebook shows, and which can be changed and saved further.
    Charts need the extra ``paceline[report]``.
    """

    def __init__(self, result: Replayed) -> None:
        self._runs = (Run("replay", result),)

    def cdf(self, metric: str = "ttft") -> Chart:
        """Chart the share of requests with at most each latency: ttft, tpot, itl, e2e, ttfat or queueing."""
        return self._own(cdf_chart(self._distribution(metric), METRICS[metric]))

    def tail(self, metric: str = "ttft") -> Chart:
        """Chart the share of requests with more than each latency, on logarithmic axes."""
        return self._own(tail_chart(self._distribution(metric), METRICS[metric]))

    def hist(self, metric: str = "ttft", *, bins: int = 60) -> Chart:
        """Chart how many requests have each latency, in bins of equal width up to the 99.9th percentile."""
        _known("metric", metric, [name for name in METRICS if name != "itl"])
        if not 1 <= bins <= 1000:
            raise ResultError(f"bins must be between 1 and 1,000, was {bins}")
        counts = histogram(self._runs[0].result.column(metric), bins)
        if counts.is_empty():
            raise ResultError(f"no request has a {metric}; plot another latency")
        return self._own(
            spans(counts, f"{METRICS[metric]} (s)", Axis("requests", "requests", form="~s", tip=","))
        )

    def by_length(self, metric: str = "ttft", length: str = "prompt_tokens") -> Chart:
        """Chart the median and the 99th percentile by ``prompt_tokens`` or ``output_tokens``."""
        _known("metric", metric, [name for name in METRICS if name != "itl"])
        _known("length", length, ["prompt_tokens", "output_tokens"])
        return self._own(length_chart(by_length(self._runs, metric, length), METRICS[metric], length))

    def over_time(self, what: str = "in_flight") -> Chart:
        """Chart a rate, a state or a latency over time.

        Parameters
        ----------
        what
            ``arrivals``, ``finished`` or ``tokens`` per second; ``in_flight`` or ``waiting`` requests; or a
            latency of the requests by their arrival, such as ``ttft``.
        """
        _known("what", what, [*_OVER_TIME, *(name for name in METRICS if name != "itl")])
        time = Axis("time_s", "time (s)", form="~s", tip=",.1f")
        if what in _OVER_TIME:
            return self._own(lines(over_time(self._runs), time, Axis(what, _OVER_TIME[what], form="~s")))
        frame = percentiles_over_time(self._runs, what).unpivot(
            ["p50", "p99"], index=["run", "time_s"], variable_name="quantile", value_name="seconds"
        )
        seconds = Axis("seconds", f"{METRICS[what]} (s)", scale="log")
        return self._own(lines(frame, time, seconds, dash="quantile", places=True))

    def _distribution(self, metric: str) -> pl.DataFrame:
        _known("metric", metric, list(METRICS))
        frame = distributions(self._runs, metric)
        if frame.is_empty():
            raise ResultError(f"no request has a {metric}; plot another latency")
        return frame

    @staticmethod
    def _own(chart: Any) -> Chart:  # noqa: ANN401 - Altair's
        """Return the chart with the colours of reports, as a notebook shows it without a network."""
        return offline(chart.configure(**NOTEBOOK))


def _known(argument: str, value: str, known: list[str]) -> None:
    if value not in known:
        raise ResultError(f"{argument} must be one of {', '.join(known)}, was {value!r}")
