"""Comparing the engine with a router log."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.conformance.difference import Difference
from paceline.conformance.routers.decided import first_difference
from paceline.conformance.routers.log import RouterLog

__all__ = ["check_router"]


@typed()
def check_router(log: RouterLog, *, leap: bool, follow: bool = False) -> Difference | None:
    """Replay a log's requests through the engine and compare every decision and time.

    Parameters
    ----------
    log
        The decisions of the real router.
    leap
        Whether the engine computes runs of equal steps at once.
    follow
        Whether ties that the router breaks at random go to the instance in the
        log, where it is among the equals. A generator that the log names is not
        used then.

    Returns
    -------
    Difference | None
        The difference of the first request that differs; None if all decisions,
        first tokens and finishes are the same.
    """
    ours = log.kind.replayed(log.content, leap=leap, follow=follow)
    return first_difference(ours, log.kind.recorded(log.content))
