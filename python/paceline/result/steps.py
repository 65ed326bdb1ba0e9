"""The steps and transfers of a window of a replay, one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline._clock import TICKS_PER_SECOND
from paceline.result.outcome import Outcome

__all__ = ["STEPS_SCHEMA", "TRANSFERS_SCHEMA", "Recorded", "recorded_of"]

STEPS_SCHEMA: Final[dict[str, pl.DataType]] = {
    "instance": pl.UInt32(),
    "start_s": pl.Float64(),
    "step_s": pl.Float64(),
    "requests": pl.List(pl.UInt32()),
    "tokens": pl.List(pl.UInt32()),
    "decodes": pl.UInt32(),
    "preempted": pl.List(pl.UInt32()),
    "swapped_out_blocks": pl.UInt64(),
    "swapped_in_blocks": pl.UInt64(),
    "kv_free_blocks": pl.UInt32(),
}
"""Names and types of the columns of `Result.steps`, in order."""

TRANSFERS_SCHEMA: Final[dict[str, pl.DataType]] = {
    "request": pl.UInt32(),
    "source": pl.UInt32(),
    "target": pl.UInt32(),
    "kind": pl.String(),
    "sent_s": pl.Float64(),
    "first_byte_s": pl.Float64(),
    "delivered_s": pl.Float64(),
    "bytes": pl.UInt64(),
}
"""Names and types of the columns of `Result.transfers`, in order."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded of a window, each frame computed or read when it is called for."""

    steps: Callable[[], pl.DataFrame]
    transfers: Callable[[], pl.DataFrame]


def recorded_of(outcome: Outcome, instances: Callable[[], int]) -> Recorded:
    """Return what an outcome has recorded. ``instances``: how many there are."""
    return Recorded(lambda: _steps(outcome, instances()), lambda: _transfers(outcome))


def _steps(outcome: Outcome, instances: int) -> pl.DataFrame:
    frames = [_of_instance(index, outcome.steps(index)) for index in range(instances)]
    return pl.concat(frames, rechunk=False) if frames else pl.DataFrame(schema=STEPS_SCHEMA)


def _of_instance(index: int, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Return the steps of one instance."""
    ends = columns["scheduled_ends"]
    counted = np.concatenate(([0], np.cumsum(columns["decodes"], dtype=np.uint32)))
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    frame = pl.DataFrame(
        {
            "start_s": columns["start"] / TICKS_PER_SECOND,
            "step_s": columns["ticks"] / TICKS_PER_SECOND,
            "decodes": counted[ends.astype(np.int64)] - counted[starts.astype(np.int64)],
            "swapped_out_blocks": columns["copied_out"],
            "swapped_in_blocks": columns["copied_in"],
            "kv_free_blocks": columns["free_blocks"],
        }
    )
    lists = _lists(ends, requests=columns["requests"], tokens=columns["tokens"])
    preempted = _lists(columns["preempted_ends"], preempted=columns["preempted"])
    whole = pl.concat([frame, lists, preempted], how="horizontal")
    whole = whole.with_columns(pl.lit(index, dtype=pl.UInt32).alias("instance"))
    return whole.select(pl.col(name).cast(dtype) for name, dtype in STEPS_SCHEMA.items())


def _lists(ends: NDArray[np.uint64], **values: NDArray[np.uint32]) -> pl.DataFrame:
    """Return columns of lists, each of them the values up to where it ends."""
    lengths = np.diff(ends, prepend=np.uint64(0)).astype(np.int64)
    step = pl.Series("step", np.repeat(np.arange(len(ends), dtype=np.uint32), lengths)).set_sorted()
    found = pl.DataFrame({"step": step, **values}).group_by("step", maintain_order=True).agg(pl.all())
    if found.height < len(ends):
        # A step without values has no group.
        every = pl.DataFrame({"step": pl.Series(range(len(ends)), dtype=pl.UInt32)})
        found = every.join(found, on="step", how="left", maintain_order="left")
        empty = pl.Series([[]], dtype=pl.List(pl.UInt32))
        found = found.with_columns(pl.col(name).fill_null(empty) for name in values)
    return found.drop("step")


def _transfers(outcome: Outcome) -> pl.DataFrame:
    columns = outcome.transfer_columns()
    moments = {f"{name}_s": columns[name] / TICKS_PER_SECOND for name in ("sent", "first_byte", "delivered")}
    whole = pl.DataFrame({**columns, **moments}, schema_overrides={"kind": pl.String()})
    return whole.select(pl.col(name).cast(dtype) for name, dtype in TRANSFERS_SCHEMA.items())
