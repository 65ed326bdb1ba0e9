"""Amounts of load that a capacity is searched in: a rate of arrivals, or how much is in flight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from paceline import _check
from paceline.concurrency import Concurrency
from paceline.errors import ConfigError
from paceline.planning.measured import Measured
from paceline.trace import Trace

__all__ = ["InFlight", "Load", "Rate", "load_of"]

_WIDEST: Final = 1024.0
"""The search's limits if none are given: this many times the trace's rate, and this part of it."""

_LONGEST_S: Final = 8_000_000.0
"""The longest span to which arrivals are stretched: half of what the clock holds (185 days)."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests per second: the arrivals of the trace are multiplied by a constant.

    Attributes
    ----------
    own
        The trace's own rate, where the search begins.
    lowest, highest
        The limits of the search.
    unit
        The unit of amounts.
    whole
        Whether amounts are whole numbers.
    """

    own: float
    lowest: float
    highest: float
    unit: str = "requests/s"
    whole: bool = False

    def at(self, trace: Trace, amount: float) -> Trace:
        """Return a trace with its arrivals at a rate."""
        return trace.stretched(self.own / amount)

    def columns(self, amount: float, measured: Measured, gpus: int) -> dict[str, Any]:
        """Return the rate, over the trace's own, and over GPUs and megawatts."""
        return {
            "rate": amount,
            "scale": amount / self.own,
            "gpu_rate": amount / gpus,
            "megawatt_rate": _per_megawatt(amount, measured),
        }


@dataclass(frozen=True, slots=True)
class InFlight:
    """Requests or sessions in flight: the trace's clients with another limit.

    Attributes
    ----------
    clients
        The clients of the trace.
    lowest, highest
        The limits of the search.
    whole
        Whether amounts are whole numbers.
    """

    clients: Concurrency
    lowest: float
    highest: float
    whole: bool = True

    @property
    def unit(self) -> str:
        """The unit of amounts."""
        return f"{self.clients.of} in flight"

    @property
    def own(self) -> float:
        """The trace's own number in flight."""
        return float(self.clients.most or 0)

    def at(self, trace: Trace, amount: float) -> Trace:
        """Return a trace with so many in flight."""
        return trace.by(replace(self.clients, most=int(amount)))

    def columns(self, amount: float, measured: Measured, gpus: int) -> dict[str, Any]:
        """Return the number in flight, over GPUs and megawatts, and the rate at which requests finish."""
        return self.columns_of(amount, measured, gpus)

    @staticmethod
    def columns_of(amount: float, measured: Measured, gpus: int) -> dict[str, Any]:
        """Return the same for any number in flight."""
        return {
            "in_flight": int(amount),
            "gpu_in_flight": amount / gpus,
            "megawatt_in_flight": _per_megawatt(amount, measured),
            "rate": measured.rate,
            "gpu_rate": measured.rate / gpus,
            "megawatt_rate": _per_megawatt(measured.rate, measured),
        }


Load: TypeAlias = Rate | InFlight
"""How a trace is brought to an amount of load, and what a row of the curve says of that."""


def _per_megawatt(amount: float, measured: Measured) -> float | None:
    return None if not measured.watts else amount / (measured.watts / 1e6)


def load_of(traces: Sequence[Trace], between: tuple[float | None, float | None], tolerance: float) -> Load:
    """Return the load in which the capacity for traces is searched, with the limits of the search.

    Raises
    ------
    ConfigError
        If the limits or the tolerance are out of range, traces have no rate, or not the same clients.
    """
    if not traces:
        raise ConfigError("trace of capacity() must be a Trace or a list of at least one, was an empty list")
    if not _check.is_number(tolerance) or not 1e-6 <= tolerance <= 0.5:
        raise ConfigError(f"tolerance must be from 1e-06 to 0.5, was {tolerance}")
    if len(between) != 2:
        raise ConfigError(f"between must be the lowest and the highest load, was {between}")
    clients = {trace.clients for trace in traces}
    if len(clients) > 1:
        raise ConfigError(
            f"traces of capacity() must have the same clients, had {_check.said(list(clients))}"
        )
    (one,) = clients
    if one is not None and one.most is None:
        raise ConfigError(
            "clients of a trace must have a limit, whose number capacity() searches, as in Concurrency(8); "
            f"was {one!r}"
        )
    return _rate(traces, between) if one is None else _in_flight(one, traces, between)


def _rate(traces: Sequence[Trace], between: tuple[float | None, float | None]) -> Rate:
    own = _own_rate(traces)
    lowest, highest = between
    for name, limit in (("lowest", lowest), ("highest", highest)):
        if limit is not None:
            _check.positive(f"{name} rate of capacity()", limit)
    least = own * max(trace.span_s for trace in traces) / _LONGEST_S
    if lowest is not None and lowest < least:
        raise ConfigError(
            f"between must begin at {least:.3g} requests/s or more, at which the trace spans 92 days, "
            f"was {lowest}"
        )
    low = max(own / _WIDEST, least) if lowest is None else float(lowest)
    high = own * _WIDEST if highest is None else float(highest)
    if lowest is None:
        low = min(low, high)
    if highest is None:
        high = max(low, high)
    if low > high:
        raise ConfigError(f"between must begin with the lower rate, was {between}")
    return Rate(own, low, high)


def _in_flight(
    clients: Concurrency, traces: Sequence[Trace], between: tuple[float | None, float | None]
) -> InFlight:
    """Return the numbers in flight: up to all that the shortest trace has, beyond which nothing changes."""
    all_of_them = min(_units(trace, clients) for trace in traces)
    lowest, highest = (
        default if limit is None else limit for limit, default in zip(between, (1, all_of_them), strict=True)
    )
    for name, limit in (("lowest", lowest), ("highest", highest)):
        if not (float(limit).is_integer() and limit >= 1):
            raise ConfigError(f"{name} of capacity() must be a whole number of {clients.of}, was {limit}")
    if lowest > highest:
        raise ConfigError(f"between must begin with the lower number, was {between}")
    return InFlight(clients, float(lowest), float(min(highest, all_of_them)))


def _units(trace: Trace, clients: Concurrency) -> int:
    """Return how many requests, or sessions, a trace has; a request without a session is one of its own."""
    if clients.of == "requests" or "session" not in trace.frame.columns:
        return len(trace)
    sessions = trace.frame.get_column("session")
    return sessions.drop_nulls().n_unique() + sessions.null_count()


def _own_rate(traces: Sequence[Trace]) -> float:
    """Return the mean rate of traces together: gaps between arrivals over spans."""
    span = sum(each.span_s for each in traces)
    if span == 0:
        name = traces[0].name
        raise ConfigError(
            f"{name}: a trace must have arrivals at two instants or more to have a rate, its requests arrive "
            f"at one; or clients, whose number is searched: trace.by(Concurrency(8))"
        )
    return sum(len(each) - 1 for each in traces) / span
