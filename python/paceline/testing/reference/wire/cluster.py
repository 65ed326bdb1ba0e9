"""The clock of a cluster under a policy, from the configuration that the engine reads.

What happens at one moment happens in this order: steps end, instance by instance; those that
yielded a first token or reasoned their last, and those told to migrate, are decided on; transfers
end; monitors look; requests arrive; steps start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from paceline.testing.reference.wire.links import Links
from paceline.testing.reference.wire.moves import Traffic
from paceline.testing.reference.wire.replica import Replica
from paceline.testing.reference.wire.request import Job, WireRequest
from paceline.testing.reference.wire.rules import Rule
from paceline.testing.reference.wire.scope import Pace, View

Status = Literal["finished", "running", "waiting", "not arrived", "rejected"]


@dataclass(slots=True)
class WireOutcome:
    """What a replay came to.

    Attributes
    ----------
    jobs : list of Job
        Each request's progress, in the trace's order.
    instance : list of int or None
        Where each request was sent as it arrived.
    rejected : list of str or None
        Why a request was rejected; None where it was not.
    replicas : list of Replica
    end : int
        When the last thing happened, or the time ran out.
    """

    jobs: list[Job]
    instance: list[int | None]
    rejected: list[str | None]
    replicas: list[Replica]
    end: int = 0

    def status(self, row: int) -> Status:
        """Where a request ended up; one in transfer has no place in a batch, and waits."""
        job = self.jobs[row]
        if self.rejected[row] is not None:
            return "rejected"
        if self.instance[row] is None:
            return "not arrived"
        if job.done:
            return "finished"
        return "running" if job.running else "waiting"


class WireCluster:
    """A cluster in the middle of a replay."""

    def __init__(self, config: dict[str, Any], requests: Sequence[WireRequest]) -> None:
        pace = Pace(**config["pace"]) if config["pace"] else None
        replicas: list[Replica] = []
        for index, (instance, role) in enumerate(zip(config["instances"], config["roles"], strict=True)):
            replicas.append(Replica(index, instance, role, replicas, pace))
        routing = config["routing"]
        self.rules = {
            name: Rule(routing[name])
            for name in ("on_arrival", "on_prefilled", "on_answering")
            if routing[name]
        }
        self.monitors: list[dict[str, Any]] = routing["every"]
        self.pace = pace
        self.replicas = replicas
        self.traffic = Traffic(replicas, Links(**(config["links"] or {})), pace)
        self.to_come = [Job(index, request) for index, request in enumerate(requests)]
        nobody: list[Any] = [None] * len(requests)
        self.outcome = WireOutcome(self.to_come.copy(), nobody.copy(), nobody.copy(), replicas)

    @property
    def unfinished(self) -> bool:
        """Whether there is anything left to do."""
        return bool(self.to_come or self.traffic.moves or any(one.jobs for one in self.replicas))

    def next_moment(self) -> int:
        """When the next thing happens."""
        times = [one.ends for one in self.replicas if one.ends is not None] + self.traffic.ends
        times += [job.request.arrival for job in self.to_come[:1]]
        if not times:
            raise RuntimeError(f"at {self.outcome.end}: requests wait and none can run")
        after = self.outcome.end
        times += [(after // one["period"] + 1) * one["period"] for one in self.monitors]
        return min(times)

    def advance(self, now: int) -> None:
        """Let everything happen that happens at a moment."""
        self._end_steps(now)
        self.traffic.land(now)
        if self.unfinished:
            for monitor in self.monitors:
                if now > 0 and now % monitor["period"] == 0:
                    for action in monitor["actions"]:
                        self.traffic.act(action, now)
            self.traffic.land(now)
        while self.to_come and self.to_come[0].request.arrival == now:
            self._arrive(self.to_come.pop(0), now)
        for replica in self.replicas:
            replica.start(now)

    def pass_time(self, moment: int) -> None:
        """Account for the time until a moment, in which nothing changes."""
        for replica in self.replicas:
            replica.pass_time(moment - self.outcome.end)
        self.outcome.end = moment

    # -- their parts ----------------------------------------------------------------------

    def _end_steps(self, now: int) -> None:
        ended = [replica for replica in self.replicas if replica.ends == now]
        yielded = {job for replica in ended for job in replica.end(now)}
        for replica in ended:
            for job in replica.scheduler.running.copy():
                if job in replica.leaving:
                    target, already = replica.leaving[job]
                    self.traffic.leave(job, target, now, already)
                elif job in yielded:
                    self._decide(job, replica, now)

    def _decide(self, job: Job, replica: Replica, now: int) -> None:
        """Ask the rules about a request that has just yielded a token."""
        answers = job.changes_phase and job.generated == job.request.reasoning_tokens
        for name, asked in (("on_prefilled", job.generated == 1), ("on_answering", answers)):
            if not asked or name not in self.rules:
                continue
            able = [one.index for one in self.replicas if one.refusal(job.request) is None]
            view = View(now, self.replicas, self.pace, job, here=replica)
            target = self.rules[name].pick(view, able)
            if target is not None and target != replica.index:
                self.traffic.leave(job, target, now)
                return

    def _arrive(self, job: Job, now: int) -> None:
        refusals = [replica.refusal(job.request) for replica in self.replicas]
        able = [index for index, refusal in enumerate(refusals) if refusal is None]
        if not able:
            # Where the sequence is too long for some, and too big for others, say the latter.
            others = (one for one in refusals if one and one != "max_model_len")
            self.outcome.rejected[job.index] = next(others, "max_model_len")
            return
        job.joined = now
        picked = self.rules["on_arrival"].pick(View(now, self.replicas, self.pace, job), able)
        assert picked is not None, "the last of the rules on arrival gives somebody"
        self.outcome.instance[job.index] = picked
        self.replicas[picked].arrive(job, now)


def replay_wire(
    config: dict[str, Any], requests: Sequence[WireRequest], *, most_steps: int = 100_000
) -> WireOutcome:
    """Replay requests through a cluster under a policy, one step at a time.

    Parameters
    ----------
    config : dict
        What the engine reads (see ``rust/core/src/config.rs``), with ranked queues and affine
        costs in all instances; ``leap`` and ``record_decisions`` make no difference.
    requests : sequence of WireRequest
        Sorted by arrival.
    most_steps : int
        Steps after which to give up: policies can be written under which nobody ever finishes.

    Returns
    -------
    WireOutcome

    Raises
    ------
    RuntimeError
        Where requests wait that nothing can ever wake, or the steps do not end.
    """
    cluster = WireCluster(config, requests)
    until = config["until"]
    while cluster.unfinished:
        now = cluster.next_moment()
        if until is not None and now > until:
            cluster.pass_time(until)
            break
        cluster.pass_time(now)
        cluster.advance(now)
        if sum(replica.usage.steps for replica in cluster.replicas) > most_steps:
            raise RuntimeError(f"no end in sight after {most_steps} steps")
    return cluster.outcome
