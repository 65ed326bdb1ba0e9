"""A comparison: each figure beside the baseline's, with its interval, and the warm-up that was cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from paceline.report.charts.kit import Axis, intervals
from paceline.report.documents import ComparisonDocument, checked
from paceline.report.figure import Figure, Section, Table, table_of
from paceline.showing.cell import cell

__all__ = ["comparison_document", "comparison_section"]

TITLES: Final = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "e2e": "E2E",
    "max_itl": "longest ITL",
    "queueing": "queueing",
    "attainment": "attainment",
    "finished": "finished",
}


def comparison_document(found: Any) -> dict[str, Any]:  # noqa: ANN401 - a Comparison, or its document
    """Return a comparison as `paceline.compare(...).to_dict()` gives it.

    Raises
    ------
    ConfigError
        If it is neither a comparison nor such a document.
    """
    right = "what paceline.compare() returns, or the JSON of `paceline compare --json`"
    return checked(found, ComparisonDocument, "comparison", right, "table")


def comparison_section(found: Mapping[str, Any] | None) -> Section | None:
    """Return the section; None if no comparison was given."""
    if found is None:
        return None
    rows: list[Mapping[str, Any]] = found["table"]
    others = [row for row in rows if row["policy"] != found["baseline"]]
    figures = [
        figure
        for figure in (_ratios(found["baseline"], others), _differences(found["baseline"], others))
        if figure is not None
    ]
    figures.append(
        Figure(
            title="All figures with their intervals",
            note=f"Latencies in seconds. × is the ratio to {found['baseline']}, over pairs of requests that "
            "have the latency under both; better is the share of pairs in which the policy's is the better "
            "one.",
            table=_table(rows),
            wide=True,
        )
    )
    return Section(name="comparison", title="Comparison", figures=tuple(figures), text=_text(found))


def _text(found: Mapping[str, Any]) -> tuple[str, ...]:
    judged, cut = sum(found["requests"]), sum(found["warmup_requests"])
    traces = len(found["requests"])
    warmup = (
        f"Warm-up: the {cut:,} requests that arrive in the first {found['warmup_s']:g} s are replayed, and "
        "not judged here; the other tabs show all requests."
        if found["warmup_s"]
        else "Warm-up: nothing is cut."
    )
    several = "" if traces == 1 else f" of {traces} traces; the other tabs show the first trace"
    return (
        f"Intervals: {100 * found['confidence']:g}%, {found['method']}. The baseline is {found['baseline']}.",
        f"{warmup} {judged:,} requests{several} are judged.",
    )


def _ratios(baseline: str, others: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Draw the ratios of latencies, where they and their intervals are above 0, which a logarithm needs."""
    frame = _drawn(others, "ratio", lambda row: row["figure"] in ("mean", "p50", "p99"))
    frame = frame.filter(pl.min_horizontal("value", "low", "high") > 0)
    if frame.is_empty():
        return None
    axis = Axis("value", f"ratio to {baseline}", scale="log")
    return Figure(
        title=f"Latencies: ratio to {baseline}",
        note=f"At 1 a latency is as under {baseline}, left of it shorter. The bar is the interval; one that "
        "includes 1 does not tell the two apart.",
        chart=intervals(frame, axis, by="policy", names=[baseline, *_policies(others)], level=1.0),
        table=table_of(frame, ("figure", "policy", "ratio", "from", "to"), words=2),
    )


def _differences(baseline: str, others: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Draw the differences of shares."""
    frame = _drawn(others, "difference", lambda row: row["figure"] == "share")
    if frame.is_empty():
        return None
    axis = Axis("value", f"difference to {baseline}", form="+.0%", tip="+.2%")
    return Figure(
        title=f"Shares: difference to {baseline}",
        note=f"At 0 a share is as under {baseline}, right of it larger. The bar is the interval.",
        chart=intervals(frame, axis, by="policy", names=[baseline, *_policies(others)], level=0.0),
        table=table_of(frame, ("figure", "policy", "difference", "from", "to"), words=2),
    )


def _drawn(
    rows: Sequence[Mapping[str, Any]], what: str, wanted: Callable[[Mapping[str, Any]], bool]
) -> pl.DataFrame:
    cells = [
        (_title(row), row["policy"], *(row.get(name) for name in (what, f"{what}_low", f"{what}_high")))
        for row in rows
        if wanted(row)
    ]
    schema: dict[str, Any] = dict.fromkeys(("figure", "policy"), pl.String())
    schema |= dict.fromkeys(("value", "low", "high"), pl.Float64())
    return pl.DataFrame(cells, schema=schema, orient="row").drop_nulls("value")


def _policies(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["policy"] for row in rows))


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    cells = tuple(
        (
            _title(row),
            str(row["policy"]),
            *(cell(row[name]) for name in ("value", "low", "high")),
            *(cell(row.get(name)) for name in ("ratio", "ratio_low", "ratio_high", "better", "pairs")),
        )
        for row in rows
    )
    head = ("figure", "policy", "value", "from", "to", "×", "from", "to", "better", "pairs")
    return Table(head, cells, words=2)


def _title(row: Mapping[str, Any]) -> str:
    return f"{TITLES.get(row['metric'], row['metric'])} {row['figure']}"
