"""The paper's claims as conditions on a row of a comparison: where each holds is computed, not written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from paceline.study.model import Page, Table
from paceline.study.pascal.paper import TAIL_WORSE, THROUGHPUT_WITHIN

__all__ = ["CLAIMS", "COMPARABLE", "NEAR_ZERO_S", "Claim", "claims_page", "verdicts"]

COMPARABLE: Final = 0.01
"""Most by which violations may exceed a baseline's and be "comparable": one request in a hundred. Chosen."""

NEAR_ZERO_S: Final = 1.0
"""Most P99 blocking that is "near zero", beside the paper's 27.39 s without migration. Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of the paper.

    Attributes
    ----------
    name
        A column of the table of verdicts.
    says
        What the paper says, and where.
    condition
        In words, what a row must have.
    holds
        Whether a row of `comparison.summary` has it.
    """

    name: str
    says: str
    condition: str
    holds: Callable[[Mapping[str, float]], bool]


CLAIMS: Final = (
    Claim(
        name="tails",
        says="lowest tail TTFT at nearly every length, at worst 6.12% above FCFS's, 9.23% above RR's (V.B)",
        condition="worse FCFS at most 6.12%, worse RR at most 9.23%, and a cut against each",
        holds=lambda row: (
            row["worse FCFS"] <= TAIL_WORSE["FCFS"]
            and row["worse RR"] <= TAIL_WORSE["RR"]
            and min(row["cut FCFS"], row["cut RR"]) > 0
        ),
    ),
    Claim(
        name="violations",
        says="violations lower than, or comparable with, both baselines' (V.B)",
        condition="violations at most one percentage point above the lower of FCFS's and RR's",
        holds=lambda row: row["violations"] <= min(row["FCFS's"], row["RR's"]) + COMPARABLE,
    ),
    Claim(
        name="throughput",
        says="throughput within 3% of both baselines' (V.B)",
        condition="throughput within 3%",
        holds=lambda row: abs(row["throughput"]) <= THROUGHPUT_WITHIN,
    ),
    Claim(
        name="blocking",
        says="migration keeps P99 blocking near zero (V.D)",
        condition="blocking at most 1 s",
        holds=lambda row: row["blocking"] <= NEAR_ZERO_S,
    ),
    Claim(
        name="migration",
        says="without migration, violations are markedly higher (V.D)",
        condition="violations below NoMigration's",
        holds=lambda row: row["violations"] < row["NoMigration's"],
    ),
    Claim(
        name="adaptivity",
        says="without adaptivity, violations and end-to-end latency are higher (V.D)",
        condition="violations below NonAdaptive's, e2e median and e2e tail above 0",
        holds=lambda row: (
            row["violations"] < row["NonAdaptive's"] and min(row["e2e median"], row["e2e tail"]) > 0
        ),
    ),
)


def verdicts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return whether each claim holds, by row.

    Parameters
    ----------
    rows
        ``what``, and the columns of `comparison.summary`.

    Returns
    -------
    DataFrame
        ``what``, and a column for each claim: ``"holds"`` or ``"no"``.
    """
    return pl.DataFrame(
        [
            {"what": row["what"]} | {claim.name: "holds" if claim.holds(row) else "no" for claim in CLAIMS}
            for row in rows.iter_rows(named=True)
        ]
    )


def claims_page(rows: pl.DataFrame) -> Page:
    """Return the page of verdicts from the rows of all comparisons, the study's own first."""
    found = verdicts(rows)
    own, others = found.row(0, named=True), found[1:]
    summed = pl.DataFrame(
        [
            {
                "claim": claim.name,
                "paper": claim.says,
                "holds if": claim.condition,
                "study's own row": own[claim.name],
                "other rows where it holds": f"{(others[claim.name] == 'holds').sum()} of {others.height}",
            }
            for claim in CLAIMS
        ]
    )
    return Page(
        name="claims",
        title="Which claims hold, and where",
        parts=(
            "Each claim is a condition on a row of the comparisons below. The paper's words give no "
            'thresholds for "comparable" and "near zero"; those are chosen.',
            Table(name="claims-table", caption="The claims", frame=summed),
            Table(name="claims-rows", caption="The verdict in each row", frame=found),
        ),
    )
