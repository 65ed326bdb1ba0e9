"""The rows of a frame as the data of a chart."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import polars as pl

from paceline.report.libraries import altair

__all__ = ["inline"]


def inline(frame: pl.DataFrame) -> Any:  # noqa: ANN401 - Altair's
    """Return the rows as data of the chart, with six digits: enough for a picture, and short."""
    return _rows()(values=[{name: _short(value) for name, value in row.items()} for row in frame.to_dicts()])


@cache
def _rows() -> Any:  # noqa: ANN401 - Altair's
    """Return the class of a chart's rows, which all copies share: Altair copies a chart again and again."""

    class Rows(altair().InlineData):  # type: ignore[misc]
        def __deepcopy__(self, memo: object) -> Rows:
            return self

    return Rows


def _short(value: Any) -> Any:  # noqa: ANN401 - a cell
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None
