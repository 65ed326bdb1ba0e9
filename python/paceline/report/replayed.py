"""What a report reads of a result.

A protocol, so that `paceline.result` can offer reports without a circle of imports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import polars as pl

if TYPE_CHECKING:
    from paceline.objectives import SLO
    from paceline.result.outcome import Sketch
    from paceline.result.provenance import Provenance
    from paceline.result.stats import ReplayStats
    from paceline.result.totals import Totals

__all__ = ["Replayed", "Run", "has_tenants", "is_sampled", "runs_of"]


class Replayed(Protocol):
    """A result of a replay: see :class:`paceline.Result`."""

    def column(self, name: str) -> pl.Series:
        """Return one column of the requests."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the requests, those of the trace included."""
        ...

    def summary(self) -> pl.DataFrame:
        """Return a row for each latency."""
        ...

    def totals(self) -> Totals:
        """Return counts, rates and means."""
        ...

    def attainment(self, slo: SLO) -> float:
        """Return the share of requests that met the objectives."""
        ...

    def goodput(self, slo: SLO) -> float:
        """Return the requests per second that met the objectives."""
        ...

    def met(self, slo: SLO) -> pl.Series:
        """Return for each request whether it met the objectives."""
        ...

    def __len__(self) -> int:
        """Return the number of requests."""
        ...

    @property
    def itl(self) -> Sketch:
        """The gaps between tokens."""
        ...

    @property
    def stats(self) -> ReplayStats:
        """The engine's counters."""
        ...

    @property
    def provenance(self) -> Provenance:
        """The inputs of the replay."""
        ...

    @property
    def instances(self) -> pl.DataFrame:
        """A row for each instance."""
        ...

    @property
    def roles(self) -> pl.DataFrame:
        """The pools of each instance over time."""
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """A result under the name by which a report refers to it."""

    name: str
    result: Replayed


def runs_of(results: Mapping[str, Replayed]) -> tuple[Run, ...]:
    """Return the results in order, each under its name."""
    return tuple(Run(name, result) for name, result in results.items())


def is_sampled(result: Replayed) -> bool:
    """Whether the replay recorded its instances over time."""
    return bool(getattr(result, "is_sampled", False))


def has_tenants(result: Replayed) -> bool:
    """Whether it recorded its router by tenant."""
    settings = result.provenance.settings
    return is_sampled(result) and bool(settings.get("sample_tenants"))


def names(runs: Sequence[Run]) -> list[str]:
    """Return the names of the runs, in order."""
    return [run.name for run in runs]
