"""A result as a card in a notebook."""

from __future__ import annotations

from paceline.report.replayed import Replayed
from paceline.showing.card import card
from paceline.showing.cell import cell

__all__ = ["result_card"]

_FIGURES = ("mean", "p50", "p90", "p99", "max")


def result_card(result: Replayed) -> str:
    """Return the HTML of a result: totals, latencies in seconds, and its inputs."""
    totals, of = result.totals(), result.provenance
    rows = [
        (row["metric"], *(cell(row[figure]) for figure in _FIGURES))
        for row in result.summary().rows(named=True)
        if row["count"]
    ]
    facts = [
        ("requests", f"{totals.finished:,} of {totals.requests:,} finished"),
        ("instances", cell(len(result.stats.instances))),
        (
            "throughput",
            f"{cell(float(totals.requests_per_s))} requests/s over {cell(float(totals.makespan_s))} s",
        ),
        ("KV use", f"{totals.mean_kv_use:.1%} on average, {totals.peak_kv_use:.1%} at most"),
        ("preemptions", cell(totals.preemptions)),
    ]
    head = ("seconds", *_FIGURES)
    texts = [("Policy", of.policy), ("Cluster", of.cluster)]
    return card(f"Result of {of.trace}", facts, head=head, rows=rows, texts=texts)
