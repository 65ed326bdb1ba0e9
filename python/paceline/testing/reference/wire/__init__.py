"""The reference simulator for policies: what the engine reads, one step at a time.

Ranked queues, routing rules, moves over links, monitors and pacing, from the same configuration
that the engine is given. Everything is worked out anew each time it is asked for.

Rules that could be read in two ways, and how they are read here and in the engine:

* Spans in seconds are whole ticks, divided once. Fields of an instance that is in the middle of a
  step have the tokens of its finished steps, and the places, queues and blocks of now.
* Those who run share a step's tokens in the order of admission; one that finds none left sits the
  step out, and needs no block. Who is displaced gives tokens back, but not to whom it made room for.
* Nobody is displaced in the step in which it came in. Limits on displacing count admissions only;
  their condition is looked at once, at the step's start.
* Only blocks with computed tokens are copied to the CPU's memory and kept there.
* Classes and keys are evaluated on arrival and landing, admission and preemption, and at the end of
  each step that ran the request; at the start of a step only those that time alone can change.
  Where keys are refreshed, all keys wait for that.
* In transfer a request counts on no instance. One that landed waits, and is put into the CPU's
  memory after the first step that is formed without it, at no charge; where that is full it is
  computed again. Until it runs, its time counts as preempted, before an answer as blocked.
* A request that a monitor moves leaves at the end of the step under way; at once if there is none.
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
