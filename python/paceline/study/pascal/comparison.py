"""The numbers by which one comparison of the five policies is summed up, and how tables print them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from paceline.study.choices import Comparisons
from paceline.study.pascal.claims import CLAIMS
from paceline.study.pascal.requests import end_to_end, p99, throughput, violations
from paceline.study.pascal.schedulers import POLICIES
from paceline.study.pascal.tails import compared, extremes, tails

__all__ = ["CAPTION", "FORMATS", "comparisons", "summary"]

FORMATS: Final[Mapping[str, str]] = {
    "cut FCFS": ".0%",
    "cut FCFS (s)": ".0f",
    "cut RR": ".0%",
    "cut RR (s)": ".0f",
    "worse FCFS": ".0%",
    "worse RR": ".0%",
    "violations": ".2%",
    "FCFS's": ".2%",
    "RR's": ".2%",
    "NoMigration's": ".2%",
    "NonAdaptive's": ".2%",
    "blocking": ".2f",
    "blocking NoMigration": ".2f",
    "transfer": ".3f",
    "e2e median": "+.0%",
    "e2e tail": "+.0%",
    "throughput": "+.1%",
}
"""The columns of `summary`, in its order, and how they are printed."""

_CUTS: Final = (("", "cut"), (" (s)", "cut_s"))

CAPTION: Final = (
    "PASCAL's tail TTFT against FCFS's and RR's (the largest cut and the largest increase over the bins); "
    "SLO violations of PASCAL, the baselines and its variants; P99 blocking with and without migration, and "
    "P99 transfer, in seconds; median and P99 end to end, NonAdaptive's over PASCAL's less 1; PASCAL's "
    "throughput over the baseline's that differs more, less 1"
)


def comparisons(rows: pl.DataFrame) -> Comparisons:
    """Return rows of summaries, the study's own first, to be quoted."""
    return Comparisons(rows=rows, claims=CLAIMS, formats=FORMATS, units={"blocking": " s"}, prefix="PASCAL: ")


def summary(frames: Mapping[str, pl.DataFrame]) -> dict[str, float]:
    """Return the numbers of one comparison, from requests by policy.

    Parameters
    ----------
    frames
        Of all five policies, as `requests.with_paper_metrics` returns them.

    Returns
    -------
    dict
        The columns of `FORMATS`; `CAPTION` says what they are.
    """
    by_policy = {policy: tails(frames[policy]) for policy in ("FCFS", "RR", "PASCAL")}
    bins = {each: extremes(compared(by_policy, "PASCAL", each)) for each in ("FCFS", "RR")}
    fcfs, rr, pascal, never, always = (frames[policy] for policy in POLICIES)
    ours, theirs = end_to_end(pascal), end_to_end(always)
    return {
        **{f"cut {each}{unit}": bins[each][key] for each in bins for unit, key in _CUTS},
        **{f"worse {each}": bins[each]["worse"] for each in bins},
        "violations": violations(pascal),
        "FCFS's": violations(fcfs),
        "RR's": violations(rr),
        "NoMigration's": violations(never),
        "NonAdaptive's": violations(always),
        "blocking": p99(pascal["blocking"]),
        "blocking NoMigration": p99(never["blocking"]),
        "transfer": p99(pascal.filter(pl.col("migrations") > 0)["transfer"]),
        "e2e median": theirs["P50"] / ours["P50"] - 1,
        "e2e tail": theirs["P99"] / ours["P99"] - 1,
        "throughput": max((throughput(pascal) / throughput(each) - 1 for each in (fcfs, rr)), key=abs),
    }
