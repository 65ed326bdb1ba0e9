"""The traces of a sweep: each read or drawn once, on the thread that needs it first."""

from __future__ import annotations

from collections.abc import Mapping

from paceline.errors import ConfigError
from paceline.limits import Limits
from paceline.runs import Recipe
from paceline.sweeping.point import Point
from paceline.sweeping.shared import Shared
from paceline.trace import Trace

__all__ = ["Rows"]


class Rows:
    """The rows of points' traces, before and after `rate` and `scale`.

    Parameters
    ----------
    uses
        How many points have the same trace before `rate` and `scale`, and how many after them:
        a trace is kept until its last point is done.
    given
        The traces that the grid has, by digest.
    limits
        As of `paceline.read_trace`.
    """

    def __init__(self, uses: tuple[int, int], given: Mapping[str, Trace], limits: Limits | None) -> None:
        self._given = given
        self._limits = limits
        self._rows: Shared[Recipe, Trace] = Shared(uses[0])
        self._paced: Shared[str, Trace] = Shared(uses[1])

    def base(self, point: Point) -> Trace:
        """Return the rows of a point's trace before `rate` and `scale` change the arrivals."""
        recipe = point.recipe()
        if recipe is None:
            digest = point.config["trace"].get("sha256")
            if digest not in self._given:
                raise ConfigError(f"trace must be one that the grid was given, was {point.config['trace']!r}")
            return self._given[digest]
        return self._rows.take(recipe.base, lambda: recipe.draw(self._limits))

    def paced(self, point: Point) -> Trace:
        """Return the trace of a point."""
        return self._paced.take(point.text("trace"), lambda: point.paced(self.base(point)))

    def release(self, point: Point) -> None:
        """Say that a point is done."""
        try:
            recipe = point.recipe()
        except Exception:  # the point has failed with this error in its row
            return
        if recipe is not None:
            self._rows.release(recipe.base)
        self._paced.release(point.text("trace"))
