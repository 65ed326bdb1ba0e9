"""Requests that wait for the answers to others: ids of requests, and the parents of each.

A parent stands before its child, so that no request waits for itself through others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline.errors import TraceError, TraceWarning
from paceline.trace.rows import Rows

__all__ = ["check_parents", "of_part", "parent_rows", "without_lost"]

_CHILD: Final = "child"


def _pairs(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each parent of each request: ``child``, ``parent``, its ``row`` (null: unknown)."""
    ids = frame.select(pl.col("request_id").alias("parent")).with_row_index("row").drop_nulls()
    asked = frame.select(pl.col("parents").alias("parent")).with_row_index(_CHILD).explode("parent")
    return asked.drop_nulls().join(ids, on="parent", how="left", maintain_order="left")


def check_parents(frame: pl.DataFrame, rows: Rows) -> None:
    """Refuse ids that occur twice, parents that the trace does not have, and parents after their child.

    Parameters
    ----------
    frame
        A frame in the order of a trace, with the schema's types.
    rows
        Names a row of it.

    Raises
    ------
    TraceError
        The first row that breaks a rule.
    """
    if "request_id" in frame.columns:
        ids = frame.get_column("request_id")
        twice = ids.is_not_null() & ~ids.is_first_distinct()
        _refuse(rows, twice, lambda row: f"request_id must be another in each row, was {ids[row]!r} again")
    if "parents" not in frame.columns:
        if "delay" in frame.columns:
            raise TraceError(f"{rows.name}: delay needs the column parents: it follows their answers")
        return
    if "request_id" not in frame.columns:
        raise TraceError(f"{rows.name}: parents needs the column request_id, by which it names requests")
    pairs = _pairs(frame)
    _refuse_pair(pairs.filter(pl.col("row").is_null()), rows, "is the request_id of no row")
    late = pairs.filter(pl.col("row") >= pl.col(_CHILD))
    _refuse_pair(late, rows, "must stand before the request in the order of arrival")


def parent_rows(frame: pl.DataFrame) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """Return the parents of a checked frame as rows, one list after another, and the end of each list.

    Returns
    -------
    ends
        By row: the end of its parents.
    rows
        Rows of the frame.
    """
    pairs = _pairs(frame)
    counts = np.bincount(pairs.get_column(_CHILD).to_numpy(), minlength=frame.height)
    return np.cumsum(counts).astype(np.uint64), pairs.get_column("row").cast(pl.UInt32).to_numpy()


def without_lost(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Take out of ``parents`` the requests that a part of a trace does not have.

    Returns
    -------
    frame
        A request that lost all of its parents waits for none.
    lost
        How many parents were taken out.
    """
    if not {"parents", "request_id"} <= set(frame.columns):
        return frame, 0
    known = frame.get_column("request_id").drop_nulls().implode()
    kept = pl.col("parents").list.eval(pl.element().filter(pl.element().is_in(known)))
    cut = frame.with_columns(kept)
    if "delay" in cut.columns:
        cut = cut.with_columns(pl.when(pl.col("parents").list.len() > 0).then("delay").alias("delay"))
    lost = frame.get_column("parents").list.len() - cut.get_column("parents").list.len()
    return cut, int(lost.sum())


def of_part(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return a part of a trace without the parents that it lacks, and warn if it lacks any."""
    frame, lost = without_lost(frame)
    if lost:
        warnings.warn(
            f"{name}: {lost} parents are not in this part of the trace; requests wait for their other "
            "parents, or arrive at their arrival if none is left",
            TraceWarning,
            stacklevel=4,
        )
    return frame


def _refuse(rows: Rows, bad: pl.Series, said: Callable[[int], str]) -> None:
    row = bad.arg_max()
    if row is not None and bad[row]:
        raise TraceError(f"{rows.locate(row)}: {said(row)}")


def _refuse_pair(pairs: pl.DataFrame, rows: Rows, rule: str) -> None:
    if pairs.height:
        child, parent = pairs.row(0)[:2]
        raise TraceError(f"{rows.locate(child)}: parent {parent!r} {rule}")
