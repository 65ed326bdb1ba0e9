"""Traces: the arrivals of requests, and their lengths.

A [`Trace`][paceline.trace.model.Trace] is a checked table, one row a request.
[`read_trace`][paceline.trace.reading.read_trace] makes one from a file, of which it
recognises the format, [`synthesize`][paceline.synthesis.synthesize] from
distributions, and ``Trace.from_columns`` from numbers you already have.
"""

from __future__ import annotations

from paceline.trace.model import Trace
from paceline.trace.paths import critical_path
from paceline.trace.pool import pooled
from paceline.trace.reading import read_trace
from paceline.trace.scanning import TraceScan, scan_trace
from paceline.trace.source import Source

__all__ = ["Source", "Trace", "TraceScan", "critical_path", "pooled", "read_trace", "scan_trace"]
