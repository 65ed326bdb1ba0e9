"""Small charts in a terminal: the distribution of a latency, and requests over time."""

from __future__ import annotations

import sys
from typing import Any

from paceline.report.data.distributions import METRICS, distributions
from paceline.report.data.moments import over_time
from paceline.report.libraries import plotext
from paceline.report.replayed import Replayed, Run

__all__ = ["can_draw", "terminal_charts"]

_HEIGHT = 13


def can_draw(encoding: str | None) -> bool:
    """Whether text of an encoding can hold the characters that charts are drawn with."""
    try:
        "⣿─│┤┬".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def terminal_charts(result: Replayed, *, width: int) -> list[str]:
    """Return charts as text of at most so many columns: the CDFs of TTFT and E2E, and requests in flight."""
    runs = (Run("replay", result),)
    charts = []
    for metric in ("ttft", "e2e"):
        frame = distributions(runs, metric)
        if frame.height and frame["seconds"][0] > 0:
            # The slowest request alone would take up half of the width.
            frame = frame.filter(frame["share"] <= 0.999)
            title = f"{METRICS[metric]}: share of requests (%) by seconds"
            charts.append(
                _line(frame["seconds"].to_list(), (frame["share"] * 100).to_list(), title, width, log=True)
            )
    moments = over_time(runs, intervals=max(20, 2 * (width - 10)))
    if moments["in_flight"].max():
        title = "Requests in flight by seconds"
        charts.append(
            _line(moments["time_s"].to_list(), moments["in_flight"].to_list(), title, width, log=False)
        )
    return charts


def _line(x: list[float], y: list[float], title: str, width: int, *, log: bool) -> str:
    plot: Any = plotext()
    plot.clear_figure()
    plot.theme("clear")
    plot.plotsize(max(30, width), _HEIGHT)
    if log:
        plot.xscale("log")
    plot.plot(x, y, marker="braille" if can_draw(sys.stdout.encoding) else "*")
    plot.title(title)
    if log:
        plot.ylim(0, 100)
        plot.yticks([0, 25, 50, 75, 100])
    else:
        plot.ylim(0, max(y))
    text: str = plot.uncolorize(plot.build())
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))
