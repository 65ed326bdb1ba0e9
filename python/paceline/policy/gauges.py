"""Gauges: numbers of each instance that monitors read, and keep for some time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from paceline._arguments import typed, typed_fields
from paceline.errors import PolicyError
from paceline.policy.checks import duration
from paceline.policy.expressions.namespaces import pools
from paceline.policy.expressions.scope import Scope, number
from paceline.policy.expressions.tree import Expr, Operand
from paceline.policy.expressions.wire import Names, to_wire
from paceline.policy.value import Value, shown

__all__ = ["Gauge", "gauge", "gauges_in"]

Take = Literal["max", "min", "mean"]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Gauge(Value):
    """Read a number of each instance. Made by `gauge`."""

    name: str
    of: Expr
    take: Take = "max"
    window_s: float = 0.0
    within: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        named = [f"take={self.take!r}"]
        named += [f"window_s={self.window_s!r}"] if self.window_s else []
        named += [] if self.within is None else [f"within={list(self.within)!r}"]
        return f"gauge({self.name!r}, {shown(self.of)}, {', '.join(named)})"

    def to_wire(self, names: Names, ticks_per_s: float) -> dict[str, Any]:
        """Return the gauge as the engine reads it."""
        return {
            "action": "gauge",
            "index": list(names.gauges).index(self.name),
            "of": to_wire(self.of, names),
            "within": names.pool_codes(self.within),
            "window": round(self.window_s * ticks_per_s),
            "take": self.take,
        }


@typed(PolicyError)
def gauge(
    name: str,
    of: Operand,
    *,
    take: Take = "max",
    window_s: float = 0.0,
    within: str | tuple[str, ...] | list[str] | None = None,
) -> Gauge:
    """Read a number of each instance whenever the monitor runs, for its peak, low or mean over a time.

    Monitors read it as ``inst.gauge(name)``: the value as of the latest run of the gauge. So it stands for
    a metric that is scraped at the period of its monitor, and aggregated by instance.

    Parameters
    ----------
    name
        What it is called.
    of
        The number: an expression over `inst`. A value that is not a number, such as 0 / 0, is left out.
    take
        The largest, the smallest or the mean of the values that were read.
    window_s
        Seconds for which a value counts, the run of that time ago not among them; 0: only that of the
        latest run.
    within
        The pools whose instances are read; None: all. An instance that is in another pool at a run loses
        its values, and its gauge is 0, as it is before the first run.

    Raises
    ------
    PolicyError
        If `of` reads what a monitor cannot see of an instance.

    Examples
    --------
    >>> from paceline import cluster, inst
    >>> peak = gauge("peak", inst.kv_usage, take="max", window_s=60.0, within="serving")
    >>> cluster.mean(inst.gauge("peak"), within="serving")
    cluster.mean(inst.gauge('peak'), within='serving')
    """
    duration("window_s of gauge()", window_s)
    return Gauge(
        name=name,
        of=number(of, "what gauge() reads", Scope.MONITOR),
        take=take,
        window_s=window_s,
        within=pools(within),
    )


def gauges_in(actions: Iterable[object]) -> tuple[str, ...]:
    """Return the names of the gauges among some actions, in order.

    Raises
    ------
    PolicyError
        If two have the same name.
    """
    names = [action.name for action in actions if isinstance(action, Gauge)]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise PolicyError(f"gauges must have names of their own, were two of {name!r}")
    return tuple(names)
