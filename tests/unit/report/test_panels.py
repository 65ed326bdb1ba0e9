"""Many runs: small panels on equal axes, and names beside lines in place of a legend."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from paceline.report.charts.kit import MOST_TOGETHER, Axis, lines, panels
from paceline.report.replayed import Run
from paceline.report.sections.over_time import moments
from unit.report.cases import replayed


def runs(count: int) -> tuple[Run, ...]:
    return tuple(Run(f"run {n}", replayed([0.0, 0.5, 1.0 + n], [3, 4, 5])) for n in range(count))


@pytest.mark.parametrize("count", [MOST_TOGETHER, MOST_TOGETHER + 1])
def test_more_than_a_few_runs_have_a_panel_each_over_time(count: int) -> None:
    flights = next(figure for figure in moments(runs(count)).figures if figure.title == "Requests in flight")
    if count > MOST_TOGETHER:
        assert [name for name, _ in flights.panels] == [f"run {n}" for n in range(count)]
        assert flights.chart is None
    else:
        assert (flights.panels, flights.chart is None) == ((), False)


def layers_of(chart: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chart.to_dict(validate=False)["layer"]
    return found


FRAME = pl.DataFrame(
    {"run": ["a", "a", "b", "b", "c", "c"], "x": [1.0, 2.0] * 3, "y": [0.0, 4.0, 0.0, 8.0, 0.0, 8.0]}
)


def test_panels_have_equal_axes() -> None:
    drawn = panels(FRAME, Axis("x", "x", zero=False), Axis("y", "y"))
    scales = [
        [layers_of(chart)[0]["encoding"][axis]["scale"]["domain"] for axis in ("x", "y")]
        for _, chart in drawn
    ]
    assert [name for name, _ in drawn] == ["a", "b", "c"]
    assert scales == [[[1.0, 2.0], [0.0, 8.0]]] * 3


def test_lines_that_meet_share_a_name_and_there_is_no_legend() -> None:
    chart = lines(FRAME, Axis("x", "x", zero=False), Axis("y", "y"), named=True)
    spec, layers = chart.to_dict(validate=False), layers_of(chart)
    texts = [layer["data"] for layer in layers if layer["mark"]["type"] == "text"]
    labels = [(data.get("values") or spec["datasets"][data["name"]])[0]["label"] for data in texts]
    # All three begin at one point, and two of them are one line.
    assert sorted(labels, key=len) == ["a", "b, c"]
    assert layers[0]["encoding"]["color"]["legend"] is None
