"""The reference simulator for policies: what the engine reads, one step at a time.

Ranked queues, routing rules, moves over links, monitors and pacing, from the same configuration
that the engine is given. Everything is worked out anew each time it is asked for.
"""

from __future__ import annotations

from paceline.testing.reference.wire.cluster import WireCluster, WireOutcome, replay_wire
from paceline.testing.reference.wire.latency import Split, split
from paceline.testing.reference.wire.pacing import qoe, qoe_answering, read_times
from paceline.testing.reference.wire.request import Job, WireRequest

__all__ = [
    "Job",
    "Split",
    "WireCluster",
    "WireOutcome",
    "WireRequest",
    "qoe",
    "qoe_answering",
    "read_times",
    "replay_wire",
    "split",
]
