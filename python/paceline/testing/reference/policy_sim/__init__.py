"""The reference simulator for policies: the engine's configuration, replayed one step at a time.

It covers any composition of stages and rules, routing, migration over links, monitors and pacing. Every value
is computed again each time it is needed, and no run of steps is taken at once.

Rules that could be read in two ways, and how they are read here and in the engine:

* Spans in seconds are whole ticks, divided once. Fields of an instance in the middle of a step have the
  tokens of its finished steps, and the places, queues and blocks of now.
* Running requests share a step's tokens in the order of admission. If no token is left for a request, it is
  not scheduled in the step, and needs no block. Later stages skip a request that is already scheduled.
* A preempted request is removed from the step. If the scheduler refunds tokens and the request's were
  charged, they return to the budget, but not to the request that it was preempted for.
* If prefills exclude decodes and a prefill is scheduled when the stage of decodes is reached, the step ends
  there. Decodes that were admitted before that stage run all the same.
* A request admitted in a step is not displaced in the same step. Limits on displacement count admissions
  only, and its condition is evaluated once, at the start of the step. Of a victim's blocks, those count as
  free that no other request holds.
* If requests are ranked, only blocks with computed tokens are copied to the CPU's memory and kept there; else
  all blocks of the victim. Copies are charged to the next step that is formed.
* The prefix cache registers what a request generated when the request leaves the decode set: when it
  finishes, is preempted or migrates, or gets no token in a step.
* Classes and keys are evaluated on arrival and after migration, on admission and preemption, and at the end
  of each step that ran the request. At the start of a step only those are evaluated that time alone can
  change. If keys are refreshed, all keys change only then.
* If prompts are not cut, a request with more tokens than a step has is dropped when it is the next to be
  admitted and the step has tokens left; if requests are not ranked, a seat must be free, too.
* A scheduler that decides a step ahead knows the requests that had arrived when the running step started; all
  of them if no step was decided ahead. Requests that it does not know yet queue behind those it knows.
* A lookup in the prefix cache finds blocks that other requests can share, and the blocks of a request that
  was preempted there and lost its KV.
* Keys that are refreshed by time are so at the first step after each multiple of the period but zero.
* In transfer a request counts on no instance. A migrated request waits for admission. If requests are ranked,
  its KV is moved to the CPU's memory after the first step that is formed without it, at no charge; if that is
  full, the KV is dropped and recomputed. Until the request runs, its time counts as preempted, or as blocked
  before the first answer token.
* A request whose client cancels it leaves its queue, or its offer is withdrawn, at that moment, once the
  steps that end then have ended. One that runs leaves at the end of the running step, whose token counts, and
  is cancelled even if that is its last one. One whose KV is on its way leaves when it has arrived. Each time
  that a request is sent again it is another one, with the blocks of the same row.
* A request that a monitor migrates leaves at the end of the running step; at once if no step runs.
"""

from __future__ import annotations

from paceline.testing.reference.policy_sim.cluster import Cluster
from paceline.testing.reference.policy_sim.coverage import covers
from paceline.testing.reference.policy_sim.latency import Split, split
from paceline.testing.reference.policy_sim.outcome import Outcome
from paceline.testing.reference.policy_sim.pacing import qoe, qoe_answering, read_times
from paceline.testing.reference.policy_sim.replaying import replay
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
