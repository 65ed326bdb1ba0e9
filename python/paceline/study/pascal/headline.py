"""The paper's headline numbers beside ours, each with what is known of the difference."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import polars as pl

from paceline.study.choices import Comparisons
from paceline.study.model import Fact, Kind
from paceline.study.pages import Content
from paceline.study.paper import Stated
from paceline.study.pascal.evaluation import compared_tails
from paceline.study.pascal.requests import end_to_end, p99, throughput, violations
from paceline.study.pascal.runs import Frames
from paceline.study.pascal.schedulers import PAPER
from paceline.study.pascal.tails import extremes

__all__ = ["headline_page", "note", "numbers"]


def numbers(frames: Frames) -> dict[str, float]:
    """Return our headline numbers from the requests of one seed, all at the high load.

    Parameters
    ----------
    frames
        FCFS, RR and PASCAL on both workloads and the mix ``"heavy"``, and PASCAL's variants on AlpacaEval2.0.
    """
    found: dict[str, float] = {}
    for workload in ("alpacaeval", "arena-hard"):
        pascal = frames[workload, "high", "PASCAL"]
        for baseline in ("FCFS", "RR"):
            bins = extremes(compared_tails(frames, workload, baseline))
            found |= {
                f"{workload} {baseline} {what}": bins[what] for what in ("cut", "cut_s", "worse", "worse_s")
            }
            other = throughput(frames[workload, "high", baseline])
            found[f"{workload} {baseline} throughput"] = throughput(pascal) / other - 1
        found[f"{workload} transfer"] = p99(pascal.filter(pl.col("migrations") > 0)["transfer"])
    pascal, without, always = (
        frames["alpacaeval", "high", policy]
        for policy in ("PASCAL", "PASCAL(NoMigration)", "PASCAL(NonAdaptive)")
    )
    ours, theirs = end_to_end(pascal), end_to_end(always)
    found |= {
        "blocking without": p99(without["blocking"]),
        "blocking with": p99(pascal["blocking"]),
        "violations always": violations(always),
        "violations": violations(pascal),
        "e2e median": theirs["P50"] / ours["P50"] - 1,
        "e2e tail": theirs["P99"] / ours["P99"] - 1,
    }
    for baseline in ("FCFS", "RR"):
        mix = extremes(compared_tails(frames, "heavy", baseline))
        found |= {f"heavy {baseline} {what}": mix[what] for what in ("cut", "worse")}
    return found


def headline_page(
    by_seed: Sequence[Mapping[str, float]],
    slowdowns: Mapping[str, float],
    tables: Mapping[str, Comparisons],
) -> dict[str, Content]:
    """Return the headline numbers.

    Parameters
    ----------
    by_seed
        What `numbers` returns, for each seed.
    slowdowns
        Figure 4's: ``"FCFS"`` at 128 tokens and ``"RR"`` at 2,048.
    tables
        What the notes quote: ``"variations"``, ``"mixes"`` and ``"figure 4"``; none in a quick run.
    """
    facts = []
    for key, stated in PAPER.table("headline").items():
        figure_4 = key.startswith("figure 4 ")
        values = [slowdowns[key.split()[-1]]] if figure_4 else [row[key] for row in by_seed]
        spread = f"{min(values):.3g} to {max(values):.3g}" if len(values) > 1 else ""
        notes = (spread, note(stated, tables) if tables else "")
        kind: Kind = "fitted" if stated.more.get("kind") == "fitted" else "predicted"
        facts.append(Fact.compare(stated, statistics.median(values), kind, notes=notes))
    return {"headline-facts": facts}


def note(stated: Stated, tables: Mapping[str, Comparisons]) -> str:
    """Return what a number depends on, with what other settings give; empty if nothing is known."""
    if "note" not in stated.more:
        return ""
    quotes = [
        tables[quote.get("table", "variations")].quoted(
            quote["column"], quote["spec"], quote["rows"], quote.get("label")
        )
        for quote in stated.more["quotes"]
    ]
    return f"{stated.more['note']} ({'; '.join(quotes)})"
