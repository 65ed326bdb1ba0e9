"""The reference simulator for policies: what the engine reads, one step at a time.

Any composition of stages and rules, routing, moves over links, monitors and pacing, from the same
configuration that the engine is given. Everything is worked out anew each time it is asked for, and
no run of steps is taken at once.

Rules that could be read in two ways, and how they are read here and in the engine:

* Spans in seconds are whole ticks, divided once. Fields of an instance that is in the middle of a
  step have the tokens of its finished steps, and the places, queues and blocks of now.
* Requests that run share a step's tokens in the order of admission; one that finds none left sits the
  step out, and needs no block. One that has its tokens in the step is passed over by later stages.
* A request that is preempted is taken out of the step. Its tokens go back to the budget, if the
  scheduler refunds them and they were charged, but not to the request that it made room for.
* A step in which a prefill is scheduled by the time the decodes are reached ends there, where
  prefills exclude decodes. Decodes that came in before that stage run all the same.
* No request is displaced in the step in which it came in. Limits on displacing count admissions only;
  their condition is looked at once, at the step's start. Of a victim's blocks those count as free
  that no other request holds.
* Where requests are ranked, only blocks with computed tokens are copied to the CPU's memory and kept
  there; else all that the victim holds. Copies are charged to the next step that is formed.
* What a request generates is known to the prefix cache when it leaves the decode set: when it is
  done, preempted or sent away, or not reached by a step's tokens.
* Classes and keys are evaluated on arrival and landing, admission and preemption, and at the end of
  each step that ran the request; at the start of a step only those that time alone can change.
  Where keys are refreshed, all keys wait for that.
* Without a cut of prompts, a request that has outgrown a step's tokens is dropped when it is the next to
  come in and a step has tokens left; where requests are not ranked, it needs a free seat for that too.
* A scheduler that decides a step ahead knows the requests that had come when the step under way started;
  all of them where nothing was decided ahead. Those it does not know yet queue behind those it knows.
* A look into the prefix cache finds blocks that other requests can have too, and those of a request that
  was preempted there and lost its memory.
* Keys that are refreshed at times are so at the first step after each multiple of the period but zero.
* In transfer a request counts on no instance. One that landed waits. Where requests are ranked, its KV
  is put into the CPU's memory after the first step that is formed without it, at no charge; where
  that is full it is computed again. Until it runs, its time counts as preempted, before an answer as
  blocked.
* A request that a monitor moves leaves at the end of the step under way; at once if there is none.
"""

from __future__ import annotations

from paceline.testing.reference.policy_sim.cluster import Cluster, replay
from paceline.testing.reference.policy_sim.coverage import covers
from paceline.testing.reference.policy_sim.latency import Split, split
from paceline.testing.reference.policy_sim.outcome import Outcome
from paceline.testing.reference.policy_sim.pacing import qoe, qoe_answering, read_times
from paceline.testing.reference.policy_sim.request import Request, TraceRequest
from paceline.testing.reference.policy_sim.stuck import NoEnd, Stuck

__all__ = [
    "Cluster",
    "NoEnd",
    "Outcome",
    "Request",
    "Split",
    "Stuck",
    "TraceRequest",
    "covers",
    "qoe",
    "qoe_answering",
    "read_times",
    "replay",
    "split",
]
