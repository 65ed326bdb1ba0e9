"""Tables of measured points, and what readers make of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from paceline.errors import ConfigError
from paceline.validation.points.point import METRICS, Point, Refused
from paceline.validation.points.refusals import NotModelled

__all__ = ["Found", "Row", "each_row", "header", "known", "of_another", "table"]

Row = Mapping[str, Any]
#: What a reader yields.
Found = Iterator[Point | Refused]


def header(file: Path) -> tuple[str, ...]:
    """Return the columns of a CSV file, plain or compressed; none if it is no such file."""
    try:
        return tuple(pl.read_csv(file, n_rows=0).columns)
    except (pl.exceptions.PolarsError, OSError):
        return ()


def table(file: Path) -> pl.DataFrame:
    """Return a CSV file, with types that fit all rows.

    Raises
    ------
    ConfigError
        If it is none.
    """
    try:
        return pl.read_csv(file, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ConfigError(f"{file} must be a CSV file: {error}") from error


def each_row(name: str, rows: pl.DataFrame, make: Callable[[str, Row], Point]) -> Found:
    """Yield a point for each row, or why there is none; a row is named by its number from 1."""
    for number, row in enumerate(rows.iter_rows(named=True), start=1):
        place = f"{name}#{number}"
        try:
            yield make(place, row)
        except NotModelled as reason:
            yield Refused(id=place, reason=str(reason))
        except (TypeError, ValueError, KeyError) as error:
            yield Refused(id=place, reason=f"a value is missing or of another type ({type(error).__name__})")


def of_another(file: Path, name: str) -> Found:
    """Yield nothing: what the file has is read with the points of another."""
    del file, name
    yield from ()


def known(**values: float | None) -> dict[str, float]:
    """Return the metrics that a row has, those above 0."""
    assert set(values) <= set(METRICS), "Invariant: readers name metrics"
    return {name: float(value) for name, value in values.items() if value is not None and value > 0}
