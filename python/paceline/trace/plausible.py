"""Whether stamps make sense in the unit in which they were read."""

from __future__ import annotations

import warnings
from typing import Final

import polars as pl

from paceline.errors import TraceError, TraceWarning
from paceline.trace.choices import PER_SECOND, Unit
from paceline.trace.rows import Rows
from paceline.trace.schema import ARRIVAL_LIMIT_S
from paceline.trace.stamping import of_calendar

__all__ = ["check_unit"]

# Fewer different stamps say nothing of a rate.
_LEAST_STAMPS: Final = 100

# The busiest public trace (Azure 2024, 45 requests a second over a week) and the slowest (BurstGPT's first
# days, one in 93 s) are well inside. A unit that is wrong moves a rate by a factor of a thousand.
_MOST_PER_SECOND: Final = 1000.0
_MOST_GAP_S: Final = 120.0


def check_unit(arrival: pl.Series, unit: Unit, rows: Rows) -> None:
    """Refuse stamps that the clock cannot hold, and warn of a rate that no such file has.

    Parameters
    ----------
    arrival
        Seconds, as read in `unit`; other types are left to the schema.
    unit
        The unit of the file's stamps as it was taken.
    rows
        Names a row of the column.

    Raises
    ------
    TraceError
        A stamp is 186 days or more from zero; the message names a unit in which it is not.
    """
    if not arrival.dtype.is_numeric():
        return
    times = arrival.cast(pl.Float64).fill_nan(None).drop_nulls()
    if times.is_empty():
        return
    first, last = float(times.min()), float(times.max())  # type: ignore[arg-type]
    if last >= ARRIVAL_LIMIT_S:
        _refuse_late(arrival, last, unit, rows)
        return
    count = len(times)
    span = last - first
    if count < _LEAST_STAMPS or span <= 0 or times.n_unique() < _LEAST_STAMPS:
        return
    rate = (count - 1) / span
    if rate > _MOST_PER_SECOND and unit != "s":
        what = f"{rate:,.0f} requests a second"
        other = _coarser(rate, unit)
    elif rate < 1 / _MOST_GAP_S and unit != "ns":
        what = f"a request every {1 / rate:,.0f} s, {span / 86400:,.1f} days in all"
        other = _finer(rate, unit)
    else:
        return
    message = (
        f"{rows.name}: read as {unit}, its stamps mean {what}; if they are {other}, read with unit={other!r}"
    )
    warnings.warn(message, TraceWarning, stacklevel=5)


def _refuse_late(arrival: pl.Series, last: float, unit: Unit, rows: Rows) -> None:
    if of_calendar(last, 1):
        return  # seconds since 1970, of which the schema has its own words
    finer = [other for other in PER_SECOND if PER_SECOND[other] > PER_SECOND[unit]]
    other_s = {other: last * PER_SECOND[unit] / PER_SECOND[other] for other in finer}
    fits = [other for other, at in other_s.items() if at < ARRIVAL_LIMIT_S or of_calendar(at, 1)]
    if not fits:
        return  # the schema refuses it
    row = (arrival >= ARRIVAL_LIMIT_S).arg_max()
    assert row is not None
    raise TraceError(
        f"{rows.locate(row)}: arrival must be below {ARRIVAL_LIMIT_S:,.0f} s (186 days, what the clock "
        f"holds), was {arrival[row]:,.0f} s as stamps were read as {unit}; if they are {fits[0]}, give "
        f"unit={fits[0]!r}"
    )


def _finer(rate: float, unit: Unit) -> Unit:
    finer: list[Unit] = [other for other in PER_SECOND if PER_SECOND[other] > PER_SECOND[unit]]
    good = [o for o in finer if rate * PER_SECOND[o] / PER_SECOND[unit] >= 1 / _MOST_GAP_S]
    return (good or finer[-1:])[0]


def _coarser(rate: float, unit: Unit) -> Unit:
    coarser: list[Unit] = [other for other in PER_SECOND if PER_SECOND[other] < PER_SECOND[unit]][::-1]
    good = [o for o in coarser if rate * PER_SECOND[o] / PER_SECOND[unit] <= _MOST_PER_SECOND]
    return (good or coarser[-1:])[0]
