"""The steps and transfers of a window of a replay, one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import polars as pl

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

_DECODES: Final = ("decode", "swapped_in_decode", "landed")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded of a window, each frame computed or read when it is called for."""

    steps: Callable[[], pl.DataFrame]
    transfers: Callable[[], pl.DataFrame]


class _Step(msgspec.Struct):
    start: int
    ticks: int
    scheduled: list[tuple[int, int, int, str]]
    preempted: list[int]
    copied: tuple[int, int]
    free_blocks: int


class _Transfer(msgspec.Struct):
    request: int
    source: int
    target: int
    kind: str
    sent: int
    first_byte: int
    delivered: int
    bytes: int


def recorded_of(outcome: Outcome, instances: Callable[[], int]) -> Recorded:
    """Return what an outcome has recorded. ``instances``: how many there are."""
    return Recorded(lambda: _steps(outcome, instances()), lambda: _transfers(outcome))


def _steps(outcome: Outcome, instances: int) -> pl.DataFrame:
    rows = [
        (
            index,
            step.start / TICKS_PER_SECOND,
            step.ticks / TICKS_PER_SECOND,
            [row for row, *_ in step.scheduled],
            [tokens for _, tokens, *_ in step.scheduled],
            sum(part in _DECODES for *_, part in step.scheduled),
            step.preempted,
            *step.copied,
            step.free_blocks,
        )
        for index in range(instances)
        for step in msgspec.json.decode(outcome.decisions(index), type=list[_Step])
    ]
    return pl.DataFrame(rows, schema=STEPS_SCHEMA, orient="row")


def _transfers(outcome: Outcome) -> pl.DataFrame:
    rows = [
        (
            one.request,
            one.source,
            one.target,
            one.kind,
            *(ticks / TICKS_PER_SECOND for ticks in (one.sent, one.first_byte, one.delivered)),
            one.bytes,
        )
        for one in msgspec.json.decode(outcome.transfers(), type=list[_Transfer])
    ]
    return pl.DataFrame(rows, schema=TRANSFERS_SCHEMA, orient="row")
