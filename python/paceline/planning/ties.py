"""Requests that arrive at one moment, which no change of the rate spreads."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from paceline.errors import TraceWarning
from paceline.trace import Trace

__all__ = ["Ties", "ties_of", "warn_of_ties"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ties:
    """Requests of traces that share the moment of their arrival.

    Attributes
    ----------
    share
        The share of requests that arrive at the moment of another one.
    largest
        The most requests that arrive at one moment.
    """

    share: float
    largest: int


def ties_of(traces: Sequence[Trace]) -> Ties:
    """Count the requests of traces that arrive at the moment of another request of the same trace.

    Examples
    --------
    >>> import paceline
    >>> trace = paceline.Trace.from_columns(
    ...     arrival=[0, 1, 1, 1], prompt_tokens=[9] * 4, output_tokens=[9] * 4)
    >>> ties_of([trace])
    Ties(share=0.75, largest=3)
    """
    tied, largest = 0, 1
    for trace in traces:
        together = trace.frame.group_by("arrival").len().filter(pl.col("len") > 1).get_column("len")
        tied += int(together.sum())
        largest = max(largest, int(together.cast(pl.Int64()).max() or 1))  # type: ignore[arg-type]
    return Ties(share=tied / sum(len(trace) for trace in traces), largest=largest)


def warn_of_ties(ties: Ties, target: float, name: str) -> None:
    """Warn if more requests are tied than may miss an objective, so that ties may decide the answer."""
    if ties.share > 1 - target:
        warnings.warn(
            f"{name}: {ties.share:.1%} of the requests arrive at the same moment as another, up to "
            f"{ties.largest:,} at once. A scale of the arrivals does not spread them, so that a lower rate "
            "may not meet the objective any better; arrivals with finer stamps, or synthesized ones, would",
            TraceWarning,
            stacklevel=4,
        )
