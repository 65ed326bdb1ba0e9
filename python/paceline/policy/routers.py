"""What the routers of a cluster know, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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

    With `on_change`, instances report to a relay instead, when the number of their
    running or of their queued requests is not as they told last, and the relay
    publishes what it was told about all instances. It publishes `gap` seconds after
    its latest publication if it was told anything since, and `every` seconds after
    it if not; each message sets that deadline anew. Each step of such a replay is
    simulated on its own.

    Parameters
    ----------
    every
        Seconds from one report to the next; with `on_change`, the most.
    on_change
        When instances report to a relay: ``"after"`` steps, or ``"around"``: before
        and after steps. None: there is no relay.
    gap
        The least seconds between two publications of a relay.
    unit
        The seconds in which a relay counts the time since its latest publication;
        parts of them are not counted.
    whole_steps
        For instances in lockstep: a relay publishes the fields of one step. When the
        first message of a later step arrives, it copies what it was told before, and
        at its deadline it publishes the copy. The number is the seconds for which it
        waits at least while it has no copy. None: it keeps no copies.

    Raises
    ------
    PolicyError
        If a time is below a nanosecond, or a million seconds or more; if a setting
        of a relay is given without `on_change`, or the gap exceeds the period.

    Examples
    --------
    >>> Reports(every=0.1)
    Reports(every=0.1)
    >>> Reports(every=5.0, on_change="after", gap=0.1)
    Reports(every=5.0, on_change='after', gap=0.1)
    """

    every: float
    on_change: Literal["after", "around"] | None = None
    gap: float | None = None
    unit: float | None = None
    whole_steps: float | None = None

    def __post_init__(self) -> None:
        duration("every of Reports", self.every, least=1e-9)
        for name in ("gap", "unit", "whole_steps"):
            value = getattr(self, name)
            if value is None:
                continue
            duration(f"{name} of Reports", value, least=1e-9)
            if self.on_change is None:
                raise PolicyError(
                    f"{name} of Reports must be left out without on_change, was {said(value)}; a relay has "
                    f'one: Reports(every=5.0, on_change="after", {name}={value!r})'
                )
        if self.gap is not None and self.gap > self.every:
            raise PolicyError(f"gap of Reports must be at most every, {self.every}, was {said(self.gap)}")


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
        **({} if reports is None else _relay(reports, ticks_per_s)),
        "give_up_after": None if give_up_after is None else round(give_up_after * ticks_per_s),
        "seed": seed,
    }


def _relay(reports: Reports, ticks_per_s: float) -> dict[str, Any]:
    """Return the relay of reports as the engine reads it, if there is one."""
    if reports.on_change is None:
        return {}

    def ticks(seconds: float | None) -> int | None:
        return None if seconds is None else round(seconds * ticks_per_s)

    relay = {
        "gap": ticks(reports.gap) or 0,
        "unit": ticks(reports.unit) or 1,
        "before": reports.on_change == "around",
        "copies": ticks(reports.whole_steps),
    }
    return {"relay": relay}
