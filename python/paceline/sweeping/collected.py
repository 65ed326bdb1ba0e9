"""The rows of a sweep in the order of the grid.

With a dataset the rows are on the disk, and only 25 bytes a point are held here until the frame is read.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from paceline.sweeping.dataset import Dataset, latest
from paceline.sweeping.evaluate import Finished
from paceline.sweeping.measure import frame_of, label_of, schema_of

__all__ = ["Collected"]

_ID_BYTES = 16


class Collected:
    """What is finished of a sweep.

    Parameters
    ----------
    axes
        The labels of each axis, the last one varying fastest.
    types
        The types of the axes.
    dataset
        Where the rows are written; None: they are held here.
    """

    def __init__(
        self, axes: Mapping[str, Sequence[Any]], types: Mapping[str, str], dataset: Dataset | None
    ) -> None:
        self._axes = axes
        self._types = types
        self._dataset = dataset
        self._frames: list[pl.DataFrame] = []
        self._places = array("q")
        self._ids = bytearray()
        self._failed = bytearray()

    def add(self, finished: Iterable[Finished]) -> None:
        """Write the rows of points that were replayed, and keep what names their rows."""
        new = []
        for each in finished:
            self._places.append(each.place)
            self._ids += bytes.fromhex(each.row["id"])
            self._failed.append(each.row["status"] == "failed")
            if not each.kept:
                new.append(each.row)
        if new:
            rows = frame_of(self._types, new)
            if self._dataset is None:
                self._frames.append(rows)
            else:
                self._dataset.write(rows)

    def frame(self) -> pl.DataFrame:
        """Return a row for each point, with the labels of this grid.

        Raises
        ------
        ResultError
            If the dataset is not there any more, or cannot be read.
        """
        schema = schema_of(self._types)
        held = pl.concat(self._frames) if self._frames else pl.DataFrame(schema=schema)
        rows = latest(held) if self._dataset is None else self._dataset.rows()
        rows = rows.drop(axis for axis in self._types if axis in rows.columns)
        ids = np.frombuffer(bytes(self._ids), dtype=f"V{_ID_BYTES}").tolist()
        order = pl.DataFrame(
            {
                "place": np.frombuffer(self._places, dtype=np.int64),
                "id": pl.Series(ids, dtype=pl.Binary).bin.encode("hex"),
                "failed": np.frombuffer(self._failed, dtype=np.uint8).astype(bool),
            }
        ).sort("place")
        order = order.select(
            "place",
            "id",
            pl.when("failed").then(pl.lit("failed")).otherwise(pl.lit("done")).alias("status"),
        )
        joined = order.join(rows, on=["id", "status"], how="left", maintain_order="left")
        joined = joined.with_columns(self._labels(order["place"], schema))
        absent = {name: kind for name, kind in schema.items() if name not in joined.columns}
        joined = joined.with_columns(pl.lit(None, kind).alias(name) for name, kind in absent.items())
        return joined.select(pl.col(name).cast(kind) for name, kind in schema.items())

    def _labels(self, places: pl.Series, schema: Mapping[str, Any]) -> list[pl.Series]:
        """Return the column of each axis: the last one varies fastest."""
        left, columns = places.to_numpy(), []
        for axis, labels in reversed(list(self._axes.items())):
            left, at = np.divmod(left, len(labels))
            said = [label_of(label, self._types[axis]) for label in labels]
            columns.append(pl.Series(axis, said, dtype=schema[axis], strict=False).gather(at))
        return columns
