"""For whose answers the requests of a result wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["Waits"]


@dataclass(frozen=True, slots=True)
class Waits:
    """An entry for each request and each other one for whose answer it waits.

    Attributes
    ----------
    child, parent
        Their rows.
    after_s
        Seconds from the answer to the request at least: its ``think_time`` or its ``delay``.
    """

    child: NDArray[np.int64]
    parent: NDArray[np.int64]
    after_s: NDArray[np.float64]

    @classmethod
    def of(cls, frame: pl.DataFrame) -> Waits:
        """Read the columns of a trace in the frame of a result."""
        rows = frame.with_row_index("child")
        parts = [_turns(rows), _children(rows)]
        pairs = pl.concat([part for part in parts if part is not None] or [_NONE])
        return cls(*(pairs.get_column(name).to_numpy() for name in _NONE.columns))

    def sessions(self, frame: pl.DataFrame) -> NDArray[np.int64]:
        """Return the session of each request, named by its first row.

        Requests that wait for each other are of one session.
        """
        joined = list(zip(self.child.tolist(), self.parent.tolist(), strict=True))
        if "session" in frame.columns:
            rows = frame.select("session").with_row_index("row").drop_nulls()
            before = rows.select("row", before=pl.col("row").shift(1).over("session")).drop_nulls()
            joined += before.rows()
        first = list(range(frame.height))

        def found(row: int) -> int:
            while first[row] != row:
                first[row] = first[first[row]]
                row = first[row]
            return row

        for one, other in joined:
            low, high = sorted((found(one), found(other)))
            first[high] = low
        return np.array([found(row) for row in range(frame.height)], dtype=np.int64)


_NONE = pl.DataFrame(schema={"child": pl.Int64(), "parent": pl.Int64(), "after_s": pl.Float64()})


def _turns(rows: pl.DataFrame) -> pl.DataFrame | None:
    """Return the turns that wait for the answer to the turn before them."""
    if not {"think_time", "session"} <= set(rows.columns):
        return None
    turns = rows.drop_nulls("session").with_columns(parent=pl.col("child").shift(1).over("session"))
    return _typed(turns.drop_nulls(["parent", "think_time"]).rename({"think_time": "after_s"}))


def _children(rows: pl.DataFrame) -> pl.DataFrame | None:
    """Return the requests that wait for the answers to their parents."""
    if not {"parents", "request_id"} <= set(rows.columns):
        return None
    delay = pl.col("delay").fill_null(0.0) if "delay" in rows.columns else pl.lit(0.0)
    asked = rows.select("child", id=pl.col("parents"), after_s=delay).explode("id").drop_nulls("id")
    ids = rows.select(parent="child", id="request_id").drop_nulls("id")
    return _typed(asked.join(ids, on="id"))


def _typed(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.select(pl.col(name).cast(dtype) for name, dtype in _NONE.schema.items())
