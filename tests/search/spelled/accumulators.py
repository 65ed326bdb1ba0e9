"""Accumulators of the public API from those that the engine reads."""

from __future__ import annotations

from typing import Any

from paceline.policy import accumulated
from paceline.policy.expressions.tree import Expr
from search.draw.accumulators import SHARES, UNIT
from search.spelled.expressions import NAMES, condition, number

Wire = dict[str, Any]
TICKS_PER_S = 1e9


class Accumulators:
    """Keys and admissions that may read the accumulators of a ranked order."""

    def __init__(self, order: Wire) -> None:
        self._several = [_accumulated(one) for one in order.get("accumulators", ())]

    def key(self, wire: Wire) -> Expr:
        """Return a key of a class."""
        return number(wire, self._several)

    def admits(self, wire: Wire | None) -> Expr | None:
        """Return the condition by which waiting requests are admitted."""
        return None if wire is None else condition(wire, self._several)


def _accumulated(wire: Wire) -> Expr:
    charges = wire["charges"]
    return accumulated(
        by=wire["by"],
        **{name: charges[name] / UNIT for name in ("prompt", "output", "request", "running")},
        when=charges["when"],
        weights={NAMES.tenants[one["code"]]: _share(charges, one) for one in wire["groups"]},
        lift=wire["lift"],
        quantum=wire["quantum"] / UNIT,
        half_life=wire["half_life"] / TICKS_PER_S or None,
    )


def _share(charges: Wire, own: Wire) -> float:
    """Return the share by which the charges of a group are those of the others."""
    return min(
        SHARES,
        key=lambda share: sum(abs(round(charges[name] / share) - own[name]) for name in ("prompt", "output")),
    )
