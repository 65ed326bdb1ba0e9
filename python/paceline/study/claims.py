"""A paper's claims as conditions on a row of numbers: where each holds is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from paceline.study.model import Table

__all__ = ["Claim", "claims_tables", "verdicts"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a paper.

    Parameters
    ----------
    name
        A column of the table of verdicts.
    says
        What the paper says, and where.
    condition
        In words, what a row must have.
    holds
        Whether a row has it.
    """

    name: str
    says: str
    condition: str
    holds: Callable[[Mapping[str, Any]], bool]


def verdicts(claims: Sequence[Claim], rows: pl.DataFrame) -> pl.DataFrame:
    """Return whether each claim holds, by row.

    Parameters
    ----------
    claims
        A column each.
    rows
        ``what``, and the columns that the claims read.

    Returns
    -------
    DataFrame
        ``what``, and for each claim ``"holds"`` or ``"no"``.
    """
    return pl.DataFrame(
        [
            {"what": row["what"]} | {claim.name: "holds" if claim.holds(row) else "no" for claim in claims}
            for row in rows.iter_rows(named=True)
        ]
    )


def claims_tables(claims: Sequence[Claim], rows: pl.DataFrame, elsewhere: pl.DataFrame) -> dict[str, Table]:
    """Return a table of the claims, and one of the verdict in each row.

    Parameters
    ----------
    claims, rows
        As of `verdicts`: the study's own row first, and variations of it.
    elsewhere
        Rows of other workloads, which are counted apart: variations of one workload are no independent cases.
    """
    found = verdicts(claims, rows)
    own, varied, others = found.row(0, named=True), found[1:], verdicts(claims, elsewhere)
    summed = [
        {
            "claim": claim.name,
            "paper": claim.says,
            "holds if": claim.condition,
            "study's own row": own[claim.name],
            "its variations where it holds": _share(varied, claim),
            "other workloads and loads where it holds": _share(others, claim),
        }
        for claim in claims
    ]
    return {"claims-table": Table(pl.DataFrame(summed)), "claims-rows": Table(pl.concat([found, others]))}


def _share(found: pl.DataFrame, claim: Claim) -> str:
    return f"{(found[claim.name] == 'holds').sum()} of {found.height}"
