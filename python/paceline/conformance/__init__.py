"""Decision logs of real schedulers, replayed through this engine.

A log holds a workload, the settings of a real engine, an integer cost, and
every decision that the real scheduler took. ``python -m paceline.conformance
FILE...`` replays each log through the same engine that `paceline.replay`
uses, with leaping on and off, and prints the first difference of each.
"""

from __future__ import annotations

from paceline.conformance.check import Difference, check
from paceline.conformance.log import DecisionLog, read_log

__all__ = ["DecisionLog", "Difference", "check", "read_log"]
