"""The paper's headline numbers beside ours, each with what is known of the difference."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from paceline.study.model import Fact, Facts, Page
from paceline.study.pascal import paper
from paceline.study.pascal.ablations import end_to_end
from paceline.study.pascal.evaluation import Frames, compared_tails
from paceline.study.pascal.requests import p99, throughput, violations
from paceline.study.pascal.tails import extremes

__all__ = ["headline_page", "numbers"]

_SECONDS: Final = "s"


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
            bins = compared_tails(frames, workload, baseline)
            for what in ("cut", "cut_s", "worse", "worse_s"):
                found[f"{workload} {baseline} {what}"] = extremes(bins)[what]
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
    by_seed: Sequence[Mapping[str, float]], slowdowns: Mapping[str, float], notes: Mapping[str, str]
) -> Page:
    """Return the table of headline numbers.

    Parameters
    ----------
    by_seed
        What `numbers` returns, for each seed.
    slowdowns
        Figure 4's: ``"FCFS"`` at 128 tokens and ``"RR"`` at 2,048.
    notes
        What `notes.notes` returns.
    """
    facts = [
        Fact(
            name=name,
            ours=slowdowns[policy],
            paper=theirs,
            kind="predicted",
            note=notes.get(f"figure 4 {policy}", ""),
        )
        for name, policy, theirs in (
            ("Figure 4: FCFS at 128 reasoning tokens, over the oracle", "FCFS", paper.FCFS_SLOWDOWN),
            ("Figure 4: RR at 2,048 reasoning tokens, over the oracle", "RR", paper.RR_SLOWDOWN),
        )
    ]
    for name, key, theirs, unit in _asked():
        values = [row[key] for row in by_seed]
        facts.append(
            Fact(
                name=name,
                ours=statistics.median(values),
                paper=theirs,
                unit=unit,
                kind="fitted" if key.endswith("transfer") else "predicted",
                note="; ".join(part for part in (_spread(values), notes.get(key, "")) if part),
            )
        )
    return Page(
        name="headline",
        title="The paper's numbers beside ours",
        parts=(
            "All at the high load. TTFT is to the first token of the answer. Ours are medians over the "
            "seeds. The notes have the range over the seeds, what the number depends on, and in brackets "
            "what other settings give. The transfers are fitted: the lengths of reasoning were derived from "
            "them. All else is predicted.",
            Facts(name="headline-facts", caption="The paper's numbers and ours", facts=tuple(facts)),
        ),
    )


def _asked() -> list[tuple[str, str, float | None, str]]:
    """Return what is asked: a name, a key of `numbers`, the paper's number and its unit."""
    rows: list[tuple[str, str, float | None, str]] = []
    for workload, title in (("alpacaeval", "AlpacaEval2.0"), ("arena-hard", "Arena-Hard")):
        for baseline in ("FCFS", "RR"):
            key = (workload, baseline)
            against = f"{title}: tail TTFT against {baseline}'s"
            rows += [
                (f"{against}, largest cut", f"{workload} {baseline} cut", paper.TAIL_CUT[key], ""),
                (
                    f"{against}, largest cut in seconds",
                    f"{workload} {baseline} cut_s",
                    paper.TAIL_CUT_S[key],
                    _SECONDS,
                ),
            ]
            if workload == "alpacaeval":
                worse, worse_s = paper.TAIL_WORSE[baseline], paper.TAIL_WORSE_S[baseline]
                rows += [
                    (f"{against}, largest increase", f"{workload} {baseline} worse", worse, ""),
                    (
                        f"{against}, largest increase in seconds",
                        f"{workload} {baseline} worse_s",
                        worse_s,
                        _SECONDS,
                    ),
                ]
    for workload, title in (("alpacaeval", "AlpacaEval2.0"), ("arena-hard", "Arena-Hard")):
        rows += [
            (
                f"{title}: throughput over {baseline}'s, less 1 (paper: within 0.03)",
                f"{workload} {baseline} throughput",
                None,
                "",
            )
            for baseline in ("FCFS", "RR")
        ]
        rows.append(
            (f"{title}: P99 KV transfer", f"{workload} transfer", paper.TRANSFER_P99_S[workload], _SECONDS)
        )
    rows += [
        ("P99 blocking without migration", "blocking without", paper.BLOCKING_P99_S, _SECONDS),
        ("P99 blocking with migration (paper: near zero)", "blocking with", None, _SECONDS),
        ("SLO violations without adaptivity", "violations always", paper.NON_ADAPTIVE_VIOLATIONS, ""),
        ("SLO violations with adaptivity", "violations", paper.ADAPTIVE_VIOLATIONS, ""),
        ("Median end to end without adaptivity, less 1", "e2e median", paper.E2E_MEDIAN_WORSE, ""),
        ("P99 end to end without adaptivity, less 1", "e2e tail", paper.E2E_TAIL_WORSE, ""),
    ]
    rows += [
        (
            f"Figure 16: tail TTFT against {baseline}'s, largest {name}",
            f"heavy {baseline} {what}",
            paper.HEAVY[f"{baseline} {what}"],
            "",
        )
        for baseline in ("FCFS", "RR")
        for what, name in (("cut", "cut"), ("worse", "increase"))
    ]
    return rows


def _spread(values: Sequence[float]) -> str:
    return f"{min(values):.3g} to {max(values):.3g}" if len(values) > 1 else ""
