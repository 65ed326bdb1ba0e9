"""Validation: replay a measured run of a real engine, and compare latencies.

A folder holds ``requests.parquet`` (arrivals and measured times), ``engine.json`` (the engine's
settings), a kernel profile, and what another simulator predicts, if that is known. :func:`validate` replays
it. :func:`suite` replays all measured points of a folder, of many kinds, and scores them by group.
"""

from __future__ import annotations

from paceline.validation.comparison import Comparison, Statistics, compare
from paceline.validation.folder import MeasuredRun, read_run
from paceline.validation.peer import read_peer
from paceline.validation.points import SuiteResult, suite
from paceline.validation.prediction import predict, validate

__all__ = [
    "Comparison",
    "MeasuredRun",
    "Statistics",
    "SuiteResult",
    "compare",
    "predict",
    "read_peer",
    "read_run",
    "suite",
    "validate",
]
