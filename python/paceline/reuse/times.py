"""How soon blocks are used again, by category of the request that used them."""

from __future__ import annotations

from typing import Final

import polars as pl

from paceline._arguments import typed
from paceline.errors import TraceError
from paceline.trace.model import Trace

__all__ = ["reuse_times"]

_SCHEMA: Final = pl.Schema(
    {"category": pl.Float64(), "uses": pl.UInt32(), "reused": pl.Float64(), "mean_s": pl.Float64()}
)


@typed(TraceError)
def reuse_times(trace: Trace, *, by: str) -> pl.DataFrame:
    """Return the share of uses of blocks that are followed by another, and the mean time to that one.

    The mean is the fit of an exponential distribution. Answers are not counted.

    Parameters
    ----------
    trace
        With ``prefix``.
    by
        A column of numbers: the category of a request.

    Returns
    -------
    polars.DataFrame
        A row for each category: ``category``, ``uses``, ``reused`` (the share) and ``mean_s``, null where
        no block is used again.

    Raises
    ------
    TraceError
        If the trace lacks one of the columns.

    Examples
    --------
    >>> trace = Trace.from_columns(
    ...     arrival=[0, 10, 40], prompt_tokens=[2, 2, 2], output_tokens=[1, 1, 1],
    ...     prefix=[[1], [1], [2]], prefix_block_tokens=2, priority=[0, 1, 1],
    ... )
    >>> reuse_times(trace, by="priority").rows()
    [(0.0, 1, 1.0, 10.0), (1.0, 2, 0.0, None)]
    """
    frame = trace.frame
    lacking = [name for name in ("prefix", by) if name not in frame.columns]
    if lacking:
        raise TraceError(
            f"{trace.name}: reuse_times needs the columns prefix and {by}; {lacking[0]} is not there"
        )
    uses = frame.select(pl.col(by).cast(pl.Float64).alias("category"), "arrival", "prefix").explode(
        "prefix", empty_as_null=False
    )
    gap = (pl.col("arrival").shift(-1) - pl.col("arrival")).over("prefix", order_by="arrival")
    return (
        uses.with_columns(gap.alias("gap"))
        .group_by("category")
        .agg(
            pl.len().alias("uses"),
            pl.col("gap").is_not_null().mean().alias("reused"),
            pl.col("gap").mean().alias("mean_s"),
        )
        .sort("category")
        .cast(dict(_SCHEMA))  # type: ignore[arg-type]
    )
