"""What the routers of a cluster know, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline._arguments import typed_fields
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.checks import duration, whole
from paceline.policy.value import Value

__all__ = ["Reports", "check_routers", "routers_to_wire"]

_MOST_ROUTERS = 4096


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Reports(Value):
    """Have instances report to the routers, which see them as of the latest report.

    The first report is taken at the start, and further ones at each multiple of
    the period, after the steps that end then and before any rule is asked.

    Parameters
    ----------
    every
        Seconds from one report to the next.

    Raises
    ------
    PolicyError
        If the period is below a nanosecond, or a million seconds or more.

    Examples
    --------
    >>> Reports(every=0.1)
    Reports(every=0.1)
    """

    every: float

    def __post_init__(self) -> None:
        duration("every of Reports", self.every, least=1e-9)


def check_routers(routers: object, seed: object, give_up_after: object, *, holds: bool) -> None:
    """Refuse settings of routers that are out of range or have no effect.

    Raises
    ------
    PolicyError
        Names the setting.
    """
    whole("routers", routers)
    if isinstance(routers, int) and routers > _MOST_ROUTERS:
        raise PolicyError(f"routers must be at most {_MOST_ROUTERS}, was {said(routers)}")
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**64:
        raise PolicyError(f"seed must be a whole number from 0 to 2**64 - 1, was {said(seed)}")
    if give_up_after is not None:
        duration("give_up_after", give_up_after, least=1e-9)
        if not holds:
            raise PolicyError(
                f"give_up_after must be left out unless on_arrival may hold(), was {said(give_up_after)}; "
                "first_of(pick(min=inst.requests, where=inst.waiting == 0), hold()) may"
            )


def routers_to_wire(
    routers: int, reports: Reports | None, give_up_after: float | None, seed: int, ticks_per_s: float
) -> dict[str, Any]:
    """Return the settings of routers as the engine reads them."""
    return {
        "count": routers,
        "report_every": None if reports is None else round(reports.every * ticks_per_s),
        "give_up_after": None if give_up_after is None else round(give_up_after * ticks_per_s),
        "seed": seed,
    }
