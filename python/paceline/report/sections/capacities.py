"""Capacity curves: attainment by rate, of searches that were given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from paceline.report.charts.kit import Axis, lines
from paceline.report.documents import CapacityDocument, checked
from paceline.report.figure import Figure, Section, Table, table_of
from paceline.showing.cell import cell

__all__ = ["capacities", "document_of"]


def document_of(name: str, found: Any) -> dict[str, Any]:  # noqa: ANN401 - a Capacity, or its document
    """Return a capacity as `paceline.capacity(...).to_dict()` gives it.

    Raises
    ------
    ConfigError
        If it is neither a capacity nor such a document.
    """
    right = "what paceline.capacity() returns, or the JSON of `paceline capacity --json`"
    return checked(found, CapacityDocument, f"capacity {name!r}", right, "curve")


def capacities(found: Mapping[str, Mapping[str, Any]]) -> Section | None:
    """Return the section; None if no capacity was given."""
    if not found:
        return None
    columns = ("rate", "gpu_rate", "attainment", "passes")
    frame = pl.DataFrame(
        [(name, *(row[column] for column in columns)) for name, of in found.items() for row in of["curve"]],
        schema=_SCHEMA,
        orient="row",
    )
    attainment = Axis("attainment", "attainment", form="%", tip=".2%", domain=(0.0, 1.0))
    targets = {of.get("target") for of in found.values()}
    level = next(iter(targets)) if len(targets) == 1 else None
    table = table_of(frame, ("search", "requests/s", "per GPU", "attainment", "passes"), most=200)
    figures = [
        Figure(
            title="Capacity",
            note="The highest evaluated rate such that it and all evaluated rates below it pass.",
            table=_found(found),
            wide=True,
        ),
        Figure(
            title="Attainment by rate",
            note="Each point is a replay. The dashed level is the target."
            if level
            else "Each point is a replay.",
            chart=lines(
                frame,
                Axis("rate", "requests/s", scale="log"),
                attainment,
                by="search",
                level=level,
                places=True,
                named=True,
            ),
            table=table,
        ),
        Figure(
            title="Attainment by rate per GPU",
            note="The same over the number of GPUs.",
            chart=lines(
                frame,
                Axis("gpu_rate", "requests/s per GPU", scale="log"),
                attainment,
                by="search",
                level=level,
                places=True,
                named=True,
            ),
            table=table,
        ),
    ]
    return Section(name="capacity", title="Capacity", figures=tuple(figures))


_SCHEMA = {
    "search": pl.String(),
    "rate": pl.Float64(),
    "gpu_rate": pl.Float64(),
    "attainment": pl.Float64(),
    "passes": pl.Boolean(),
}


def _found(found: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = []
    for name, of in found.items():
        slo = of.get("slo") or {}
        bounds = ", ".join(f"{bound} ≤ {limit:g} s" for bound, limit in slo.items())
        beyond = {"above": f"≥ {cell(of.get('highest'))}", "below": f"< {cell(of.get('lowest'))}"}
        names = ("rate", "gpu_rate") if of.get("in_flight") is None else ("in_flight", "gpu_in_flight")
        amount, of_gpu = (cell(of.get(column)) for column in names)
        edge = beyond.get(of.get("bound") or "", amount)
        unit = of.get("unit", "requests/s")
        rows.append((name, bounds, cell(of.get("target")), edge, of_gpu, cell(of.get("fails_at")), unit))
    head = ("search", "SLO", "target", "capacity", "per GPU", "fails at", "unit")
    return Table(head, tuple(rows), words=2)
