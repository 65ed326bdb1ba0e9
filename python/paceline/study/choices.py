"""What a paper leaves open: ``choices.toml`` in a study's package, and what each choice changes.

A study compares settings by the same numbers: a row of numbers for each setting, medians over the seeds. The
first row is the study's own, and each other row changes one thing. ``choices.toml`` has a table for each
choice: ``taken``, ``why``, and in ``rows`` the settings that take something else.
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

import polars as pl

from paceline.study.claims import Claim
from paceline.study.model import printed

__all__ = ["Choice", "Comparisons", "choices", "median_rows", "medians"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Something that the paper does not settle.

    Parameters
    ----------
    what, taken, why
        Its name, what is taken, and the reason.
    rows
        The settings that take something else.
    """

    what: str
    taken: str
    why: str
    rows: tuple[str, ...] = ()


def choices(package: str) -> tuple[Choice, ...]:
    """Return the choices in ``choices.toml`` of a study's package."""
    content = tomllib.loads(files(package).joinpath("choices.toml").read_text(encoding="utf-8"))
    return tuple(
        Choice(what=what, taken=entry["taken"], why=entry["why"], rows=tuple(entry.get("rows", ())))
        for what, entry in content.items()
    )


def medians(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each number over several rows.

    Examples
    --------
    >>> medians([{"cut": 0.1}, {"cut": 0.5}, {"cut": 0.2}])
    {'cut': 0.2}
    """
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def median_rows(found: Mapping[str, Sequence[Mapping[str, float]]]) -> pl.DataFrame:
    """Return a row for each setting: ``what``, and the medians of its numbers over the seeds."""
    return pl.DataFrame([{"what": what, **medians(rows)} for what, rows in found.items()])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparisons:
    """Rows of settings, and how they differ from the first.

    Parameters
    ----------
    rows
        As `median_rows` returns them, the study's own first.
    claims
        Conditions on a row.
    formats
        How columns are printed.
    units
        What is written behind a printed value, by column.
    prefix
        What is left out where a row is quoted: the name of the policy that most rows begin with.
    """

    rows: pl.DataFrame
    claims: Sequence[Claim] = ()
    formats: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""

    def printed(self, columns: Iterable[str], what: str | None = None) -> dict[str, str]:
        """Return values of a row as text, by column; ``None``: of the study's own row."""
        row = self.rows.row(0, named=True) if what is None else self._row(what)
        return {name: printed(row[name], self.formats[name]) + self.units.get(name, "") for name in columns}

    def moved(self, what: str, columns: Iterable[str]) -> str:
        """Return a row's values, the claims that it loses, and those that hold in it alone."""
        own, other = self.rows.row(0, named=True), self._row(what)
        numbers = ", ".join(f"{name} {value}" for name, value in self.printed(columns, what).items())
        lost = [claim.name for claim in self.claims if claim.holds(own) and not claim.holds(other)]
        won = [claim.name for claim in self.claims if claim.holds(other) and not claim.holds(own)]
        verdict = [f"no longer: {', '.join(lost)}"] if lost else []
        verdict += [f"then holds: {', '.join(won)}"] if won else []
        return f"{what.removeprefix(self.prefix)}: {'; '.join([numbers, *verdict])}"

    def quoted(self, column: str, spec: str, whats: Iterable[str], label: str | None = None) -> str:
        """Return a column's value in each of several rows, as text; ``label``: in place of a row's name."""
        return "; ".join(
            f"{label or what.removeprefix(self.prefix)}: {self._row(what)[column]:{spec}}" for what in whats
        )

    def _row(self, what: str) -> dict[str, float]:
        return self.rows.row(by_predicate=pl.col("what") == what, named=True)
