"""Options of the load: how the arrivals of a trace are changed, and until when they are replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

from paceline.cli.options import LOAD

if TYPE_CHECKING:
    from paceline.trace import Trace

__all__ = ["DEFAULT_LOAD", "DEFAULT_RATE", "LoadOptions", "RateOptions"]


@Parameter(name="*", group=LOAD)
@dataclass(frozen=True, slots=True, kw_only=True)
class RateOptions:
    """The rate of the arrivals.

    Parameters
    ----------
    rate
        Stretch or squeeze the arrivals to this many requests per second.
    scale
        Multiply the rate of arrivals.
    """

    rate: float | None = None
    scale: float | None = None

    def paced(self, trace: Trace) -> Trace:
        """Bring a trace to the rate."""
        if self.rate is None and self.scale is None:
            return trace
        return trace.at_rate(rate=self.rate, scale=self.scale)


@Parameter(name="*", group=LOAD)
@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions(RateOptions):
    """The rate of the arrivals, and the end of the replay.

    Parameters
    ----------
    until
        Stop at this simulated second, whatever is unfinished.
    """

    until: float | None = None


DEFAULT_RATE = RateOptions()
DEFAULT_LOAD = LoadOptions()
