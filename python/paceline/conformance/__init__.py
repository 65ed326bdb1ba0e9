"""Decision logs of real schedulers and routers, replayed through this engine.

A log holds a workload, the settings of a real engine, an integer cost, and
every decision that the real scheduler took. ``python -m paceline.conformance
FILE...`` replays each log through the same engine that `paceline.replay`
uses, with leaping on and off, and prints the first difference of each. Logs of
routers are in `paceline.conformance.routers`.
"""

from __future__ import annotations

from paceline.conformance.check import check
from paceline.conformance.difference import Difference
from paceline.conformance.log import DecisionLog, read_log
from paceline.conformance.routers import RouterLog, check_router, read_router_log

__all__ = [
    "DecisionLog",
    "Difference",
    "RouterLog",
    "check",
    "check_router",
    "read_log",
    "read_router_log",
]
