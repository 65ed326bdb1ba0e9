"""The requests of a benchmark's file as a frame, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from paceline.benchmarks.model import REQUESTS_SCHEMA
from paceline.errors import TraceError

__all__ = ["known", "no_requests", "requests_frame", "same_length"]

#: What the engine counts in: 32 bits with a sign.
_MOST_TOKENS: Final = 2**31 - 1
_TOKENS: Final = ("prompt_tokens", "output_tokens")
_MOMENTS: Final = ("scheduled", "sent")
_SPANS: Final = ("measured_ttft", "measured_e2e", "last_token", "measured_client_queueing")


def no_requests() -> pl.DataFrame:
    """Return a frame of no requests."""
    return pl.DataFrame(schema=REQUESTS_SCHEMA)


def known(value: float | None) -> float | None:
    """Return a number; None if it is none or not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def same_length(arrays: Mapping[str, Sequence[Any] | None], where: str) -> int:
    """Return the length that all lists have, of those that are there.

    Raises
    ------
    TraceError
        If two differ.
    """
    lengths = {name: len(values) for name, values in arrays.items() if values is not None}
    first = next(iter(lengths))
    for name, length in lengths.items():
        if length != lengths[first]:
            raise TraceError(
                f"{where}: {name} must have as many values as {first}, {lengths[first]:,}, had {length:,}"
            )
    return lengths[first]


def requests_frame(columns: Mapping[str, Sequence[Any] | None], where: str) -> pl.DataFrame:
    """Return the requests by when they were sent, with what follows from the columns.

    A request that completed has at least one token in and out, a TTFT and an E2E not below it; numbers of one
    that failed are not checked, and become null.

    Parameters
    ----------
    columns
        For names of `REQUESTS_SCHEMA`, a value a request; a name that is missing or None is null throughout.
    where
        The file, for errors.

    Raises
    ------
    TraceError
        If a number is negative or not finite.
    """
    given = {name: values for name, values in columns.items() if values is not None}
    given.setdefault("last_token", given.get("measured_e2e", ()))
    count = same_length(given, where)
    failed = [reason is not None for reason in given.get("failure", [None] * count)]
    made: dict[str, pl.Series] = {}
    for name, dtype in REQUESTS_SCHEMA.items():
        values: Sequence[Any] = given.get(name, [None] * count)
        if name in _TOKENS:
            values = [_tokens(value, name, at, where, failed[at]) for at, value in enumerate(values)]
        elif name in _MOMENTS:
            values = [_number(value, name, at, where, least=-math.inf) for at, value in enumerate(values)]
        elif name in _SPANS:
            values = [
                None if failed[at] else _number(value, name, at, where) for at, value in enumerate(values)
            ]
        elif name == "gaps":
            values = [_gaps(value, at, where, failed[at]) for at, value in enumerate(values)]
        made[name] = pl.Series(name, values, dtype)
    _ordered(made, where)
    return _derived(pl.DataFrame(made))


def _number(value: Any, name: str, at: int, where: str, *, least: float = 0.0) -> float | None:  # noqa: ANN401
    if value is None:
        return None
    if not (math.isfinite(value) and value >= least):
        bound = " of at least 0" if math.isfinite(least) else ""
        raise TraceError(f"{where}: {name} of request {at} must be a finite number{bound}, was {value}")
    return float(value)


def _tokens(value: Any, name: str, at: int, where: str, failed: bool) -> int | None:  # noqa: ANN401
    if failed:
        return int(value) if value is not None and 0 <= value <= _MOST_TOKENS else None
    if value is None or not 1 <= value <= _MOST_TOKENS or value != int(value):
        raise TraceError(
            f"{where}: {name} of request {at} must be a whole number from 1 to {_MOST_TOKENS:,}, was {value}"
        )
    return int(value)


def _gaps(value: Any, at: int, where: str, failed: bool) -> list[float] | None:  # noqa: ANN401
    if value is None or failed:
        return None
    gaps = np.asarray(value, dtype=np.float64)
    if gaps.size and not (np.isfinite(gaps).all() and gaps.min() >= 0):
        raise TraceError(f"{where}: gaps of request {at} must be finite numbers of at least 0, were not")
    return [float(gap) for gap in gaps]


def _ordered(made: Mapping[str, pl.Series], where: str) -> None:
    """Refuse a request whose last token came before its first."""
    early = (made["last_token"] < made["measured_ttft"] * (1 - 1e-9) - 1e-9).fill_null(value=False)
    if early.any():
        at = early.arg_max()
        assert at is not None
        first, end = made["measured_ttft"][at], made["last_token"][at]
        raise TraceError(
            f"{where}: the last token of request {at} must come at or after its first, "
            f"at {first:g} s, was at {end:g} s"
        )


def _derived(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with times from the first one, TPOT and mean gaps, by when requests were sent."""
    start = pl.min_horizontal(pl.col("sent").min(), pl.col("scheduled").min())
    after = pl.col("output_tokens") - 1
    decode = (pl.col("measured_e2e") - pl.col("measured_ttft")).clip(0)
    return frame.with_columns(
        *((pl.col(name) - start).alias(name) for name in _MOMENTS),
        pl.when(after > 0).then(decode / after).alias("measured_tpot"),
        pl.col("gaps").list.mean().alias("measured_itl"),
    ).sort("sent", maintain_order=True, nulls_last=True)
