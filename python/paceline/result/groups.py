"""Figures of a result by the values of some of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from paceline._check import said
from paceline._toml import close_matches
from paceline.errors import ResultError
from paceline.objectives import SLO
from paceline.result.attainment import met
from paceline.result.columns import RequestColumns
from paceline.result.summary import METRICS, SUMMARY_SCHEMA, spread_of

__all__ = ["attained_by", "by_columns", "met_by_group", "summarized_by"]

_MOST_GROUPS = 100_000


def by_columns(columns: RequestColumns, by: str | Sequence[str]) -> list[str]:
    """Return the names of the columns to group by.

    Raises
    ------
    ResultError
        If one is no column of the requests, or is named twice.
    """
    names = [by] if isinstance(by, str) else list(by)
    for name in names:
        if name not in columns.names:
            known = ", ".join(columns.names)
            near = close_matches(name, columns.names)
            raise ResultError(f"by must name columns of requests, was {said(name)}{near}; they are {known}")
    if not names or len(set(names)) < len(names):
        raise ResultError(f"by must name at least one column, each once, was {said(names)}")
    return names


def summarized_by(columns: RequestColumns, by: str | Sequence[str]) -> pl.DataFrame:
    """Return rows as `summarize` does, for each group; without ``itl``, which no request has of its own."""
    names = by_columns(columns, by)
    metrics = [name for name in METRICS if name != "itl"] + (["ttfat"] if columns.reasons else [])
    rows: list[dict[str, Any]] = []
    for values, places in _groups(columns, names):
        for metric in metrics:
            figures = spread_of(columns[metric].gather(places))
            rows.append({**dict(zip(names, values, strict=True)), "metric": metric, **figures})
    schema = {name: columns[name].dtype for name in names} | SUMMARY_SCHEMA
    return pl.DataFrame(rows, schema=schema)


def attained_by(
    columns: RequestColumns,
    by: str | Sequence[str],
    within: pl.Series,
) -> pl.DataFrame:
    """Return for each group how many requests arrived, how many of them met their bounds, and the share."""
    names = by_columns(columns, by)
    table = pl.DataFrame([columns[name] for name in names]).with_columns(
        met=within, arrived=columns["status"] != "not_arrived"
    )
    found = table.group_by(names, maintain_order=True).agg(
        requests=pl.col("arrived").sum().cast(pl.UInt64), met=pl.col("met").sum().cast(pl.UInt64)
    )
    share = pl.when(pl.col("requests") > 0).then(pl.col("met") / pl.col("requests"))
    return found.with_columns(attainment=share).sort(names, nulls_last=True)


def met_by_group(
    columns: RequestColumns, slos: Mapping[str | int | None, SLO], by: str | Sequence[str]
) -> pl.Series:
    """Return for each request whether it met the objectives of its group.

    Raises
    ------
    ResultError
        If there is more than one column, or a group without objectives.
    """
    (name, *more) = by_columns(columns, by)
    if more:
        raise ResultError(f"objectives by group need one column, by was {said([name, *more])}")
    groups = columns[name]
    lacking = [value for value in groups.unique(maintain_order=True).to_list() if value not in slos]
    if lacking:
        raise ResultError(
            f"slo must have objectives for each value of {name}, lacked {said(lacking[:5])}; it had "
            f"{said(list(slos))}"
        )
    within = pl.Series("met", [False]).new_from_index(0, len(columns))
    for value, slo in slos.items():
        within = within | (groups.eq_missing(value) & met(columns, slo))
    return within.alias("met")


def _groups(columns: RequestColumns, names: list[str]) -> Iterator[tuple[tuple[Any, ...], pl.Series]]:
    """Yield the values of each group with the places of its requests, sorted by value."""
    table = pl.DataFrame([columns[name] for name in names]).with_row_index("_place")
    found = table.group_by(names, maintain_order=True).agg("_place").sort(names, nulls_last=True)
    if found.height > _MOST_GROUPS:
        raise ResultError(
            f"by must give at most {_MOST_GROUPS:,} groups, {', '.join(names)} gave {found.height:,}"
        )
    for *values, places in found.iter_rows():
        yield tuple(values), pl.Series(places, dtype=pl.UInt32)
