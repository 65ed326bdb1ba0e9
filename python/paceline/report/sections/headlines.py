"""What was found, at a glance: the figures that a comparison is decided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paceline.report.answer import duration, objectives_in_words
from paceline.report.figure import Figure, Section, Table
from paceline.report.replayed import Replayed, Run
from paceline.report.sections.latency import ttft_figure
from paceline.report.sections.objectives import attainment_figure
from paceline.showing.cell import cell

if TYPE_CHECKING:
    from paceline.objectives import SLO

__all__ = ["cards", "cards_of_several", "headlines"]


def headlines(runs: tuple[Run, ...], slo: SLO | None) -> Section:
    """Return the section: a row for each figure, a column for each run."""
    figures = _figures(runs, slo)
    columns = [[value(run.result) for run in runs] for _, value in figures]
    rows = []
    for (title, _), values in zip(figures, columns, strict=True):
        if all(value is None for value in values):
            continue
        points = title.endswith("(%)")
        known = [value for value in values if value is not None]
        if title.endswith("(s)") and "time" not in title and known and max(known) < 1:
            title = title.replace("(s)", "(ms)")
            values = [None if value is None else 1000 * value for value in values]
        rows.append((title, *(_beside_first(values, place, points=points) for place in range(len(values)))))
    several = len(runs) > 1
    difference = f"In parentheses: the difference to {runs[0].name}, of shares in percentage points."
    note = difference if several else ""
    table = Table(("", *(run.name for run in runs)), tuple(rows), note=note)
    latencies = _latencies(runs)
    return Section(
        name="summary",
        title="Summary",
        figures=(
            *ttft_figure(runs, slo),
            *attainment_figure(runs, slo),
            Figure(title="Headline numbers", table=table, wide=True),
            Figure(
                title="Latencies in seconds",
                note="Of the requests that have the latency; ITL pools the gaps of all requests, and its "
                "percentiles come from a sketch. Everything else is exact.",
                table=latencies,
                wide=True,
            ),
        ),
    )


def cards(run: Run, slo: SLO | None) -> list[tuple[str, str, str]]:
    """Return title, value and unit of the few figures that one run is introduced by."""
    totals = run.result.totals()
    rows = {row["metric"]: row for row in run.result.summary().rows(named=True)}
    found = [
        ("Requests finished", f"{totals.finished:,}", f"of {totals.requests:,}"),
        ("Throughput", cell(float(totals.requests_per_s)), "requests/s"),
        ("TTFT p99", *duration(rows["ttft"]["p99"])),
        ("TPOT p99", *duration(rows["tpot"]["p99"])),
        ("E2E p50", *duration(rows["e2e"]["p50"])),
        ("KV use, mean", f"{totals.mean_kv_use:.1%}", f"{totals.peak_kv_use:.1%} at most"),
    ]
    if slo is not None:
        found.insert(2, ("Attainment", f"{run.result.attainment(slo):.2%}", objectives_in_words(slo)))
    return found


def cards_of_several(runs: tuple[Run, ...], slo: SLO | None) -> list[tuple[str, str, str]]:
    """Return a card for each run: its attainment if there are objectives, else its TTFT at P99."""
    if slo is not None:
        return [
            (run.name, f"{run.result.attainment(slo):.2%}", f"met {objectives_in_words(slo)}") for run in runs
        ]
    tails = [
        {row["metric"]: row for row in run.result.summary().iter_rows(named=True)}["ttft"]["p99"]
        for run in runs
    ]
    return [
        (run.name, value, f"{unit} TTFT p99")
        for run, (value, unit) in zip(runs, map(duration, tails), strict=True)
    ]


def _figures(runs: tuple[Run, ...], slo: SLO | None) -> list[tuple[str, Callable[[Replayed], Any]]]:
    def latency(metric: str, figure: str) -> Callable[[Replayed], Any]:
        return lambda of: next(
            (row[figure] for row in of.summary().rows(named=True) if row["metric"] == metric), None
        )

    def total(name: str) -> Callable[[Replayed], Any]:
        return lambda of: getattr(of.totals(), name)

    def share(name: str) -> Callable[[Replayed], Any]:
        return lambda of: 100.0 * getattr(of.totals(), name)

    figures: list[tuple[str, Callable[[Replayed], Any]]] = [
        ("Requests", total("requests")),
        ("Finished", total("finished")),
    ]
    for name in ("rejected", "gave_up", "cancelled", "running", "waiting", "held", "not_arrived"):
        if any(getattr(run.result.totals(), name) for run in runs):
            figures.append((name.replace("_", " ").capitalize(), total(name)))
    figures += [
        ("Requests/s", total("requests_per_s")),
        ("Output tokens/s", total("output_tokens_per_s")),
        ("Tokens/s with prompts", total("total_tokens_per_s")),
        ("TTFT p50 (s)", latency("ttft", "p50")),
        ("TTFT p99 (s)", latency("ttft", "p99")),
        ("TPOT p50 (s)", latency("tpot", "p50")),
        ("TPOT p99 (s)", latency("tpot", "p99")),
        ("ITL p99 (s)", latency("itl", "p99")),
        ("E2E p50 (s)", latency("e2e", "p50")),
        ("E2E p99 (s)", latency("e2e", "p99")),
    ]
    if slo is not None:
        figures += [
            ("SLO attainment (%)", lambda of: 100.0 * of.attainment(slo)),
            ("Goodput (requests/s)", lambda of: of.goodput(slo)),
        ]
    figures += [
        ("QoE, mean", lambda of: _mean(of, "qoe")),
        ("Preemptions", total("preemptions")),
        ("Running per instance, mean", total("mean_batch")),
        ("KV use, mean (%)", share("mean_kv_use")),
        ("KV use, most (%)", share("peak_kv_use")),
        (
            "Prefix cache hits (%)",
            lambda of: share("prefix_hit_rate")(of) if of.totals().prefix_queries else None,
        ),
        ("KV transfers", lambda of: of.totals().kv_transfers or None),
        ("Energy (kJ)", lambda of: _scaled(of.totals().energy_j, 1e-3)),
        ("Energy per token (mJ)", lambda of: _scaled(of.totals().energy_per_token_j, 1e3)),
        ("Simulated time (s)", total("simulated_s")),
    ]
    return figures


def _beside_first(values: list[Any], place: int, *, points: bool) -> str:
    """Return a value and, in a comparison, how far it is from the first run's.

    A share differs by percentage points, another figure by per cent of the first.
    """
    value, first = values[place], values[0]
    text = cell(value)
    if place == 0 or value is None or first is None or value == first:
        return text
    if points:
        return f"{text} ({value - first:+.2f} points)"
    return f"{text} ({(value - first) / first:+.1%})" if first else text


def _latencies(runs: tuple[Run, ...]) -> Table:
    several = len(runs) > 1
    names = ("mean", "std", "min", "p50", "p90", "p95", "p99", "max")
    rows = []
    summaries = [(run.name, run.result.summary().rows(named=True)) for run in runs]
    for metric in [row["metric"] for row in summaries[0][1]]:
        for name, summary in summaries:
            for row in summary:
                if row["metric"] == metric and row["count"]:
                    words = (_TITLES.get(metric, metric), name) if several else (_TITLES.get(metric, metric),)
                    rows.append((*words, *(cell(row[figure]) for figure in names), cell(int(row["count"]))))
    head = ("Latency", "Run") if several else ("Latency",)
    return Table((*head, *names, "count"), tuple(rows), words=len(head))


_TITLES = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "itl": "ITL",
    "e2e": "E2E",
    "normalized_latency": "E2E per output token",
    "queueing": "Queueing",
    "ttfat": "TTFAT",
}


def _mean(result: Replayed, column: str) -> float | None:
    mean = result.column(column).mean()
    return float(mean) if isinstance(mean, float | int) else None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
