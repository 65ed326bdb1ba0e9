"""What `paceline capacity` and `paceline plan` share: the options of the objective, and words of tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter

from paceline.cli.objective import objectives_or_percentiles
from paceline.cli.options import OBJECTIVES

if TYPE_CHECKING:
    from paceline.objectives import SLO, Percentiles

__all__ = ["ObjectiveOptions", "facts", "objective_words", "percent", "quantity", "titles"]

_TITLES = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "e2e": "E2E",
    "itl": "longest ITL",
    "queueing": "queueing",
    "tbt": "TBT",
}


@Parameter(name="*", group=OBJECTIVES)
@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveOptions:
    """What must be met.

    Parameters
    ----------
    slo
        Bounds as NAME=TIME,…: ttft=500ms,tpot=0.04; in seconds without a unit (s, ms, us); also e2e, and itl
        for the longest gap. Or bounds on percentiles: p99_tbt=100ms,p50_queueing=2s; of ttft, tpot, e2e,
        queueing (until the first step), and tbt (time between tokens, over all tokens).
    target
        Share of the requests that must meet them.
    rule
        joint: this share of all requests is within every bound; marginal: for each bound by itself, this
        percentile of the latency is below it, as DistServe asks.
    """

    slo: str
    target: float = 0.90
    rule: Literal["joint", "marginal"] = "joint"

    def bounds(self) -> SLO | Percentiles:
        """Return the bounds."""
        return objectives_or_percentiles(self.slo)


def objective_words(slo: dict[str, float], target: float | None, rule: str | None) -> str:
    """Say an objective: its bounds, target and rule; of percentiles, these are none."""
    if target is None:
        return ", ".join(f"{title} ≤ {slo[name]:g} s" for name, title in titles(slo).items())
    if rule == "joint":
        bounds = ", ".join(f"{_TITLES[name]} ≤ {bound:g} s" for name, bound in slo.items())
        return f"{100 * target:g}% of all requests within {bounds}"
    return ", ".join(f"P{100 * target:g} {_TITLES[name]} < {bound:g} s" for name, bound in slo.items())


def percent(share: float, *, sign: bool = False) -> str:
    """Write a share, rounded down, so that 90.00% means that nine in ten are reached."""
    rounded = math.floor(share * 10_000 + 1e-9) / 100
    return f"{rounded:+.2f}%" if sign else f"{rounded:.2f}%"


def quantity(seconds: float | None) -> str:
    """Write a latency with its unit; one that is infinite as a dash."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    return f"{1e3 * seconds:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def titles(row: dict[str, Any]) -> dict[str, str]:
    """Return the columns of a row that are percentiles, by name with their titles."""
    columns = (name for name in row if name.startswith("p") and name[1:2].isdigit())
    return {name: f"{name.partition('_')[0].upper()} {_TITLES[name.partition('_')[2]]}" for name in columns}


def facts(rows: Sequence[tuple[str, str]]) -> None:
    """Print named facts, each on lines of its own."""
    import textwrap

    from rich.text import Text

    from paceline.cli.output import console

    screen = console()
    width = max(len(name) for name, _ in rows)
    for name, fact in rows:
        for line in textwrap.wrap(fact, max(20, screen.width - width - 2)):
            screen.print(Text(f"{name:<{width}}  {line}"))
            name = ""
