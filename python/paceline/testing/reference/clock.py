"""The clock: arrivals, step starts and step ends, in their documented order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from paceline.testing.reference.cost import AffineCost
from paceline.testing.reference.instance import Config, Instance
from paceline.testing.reference.request import Request, Sequence
from paceline.testing.reference.routing import Router, Routing

Status = Literal["finished", "running", "waiting", "not arrived", "rejected"]


@dataclass(slots=True)
class Outcome:
    """The outcome of a replay.

    Attributes
    ----------
    sequences : list of Sequence
        Each request's progress, in the trace's order.
    instance : list of int or None
        The instance that each request was routed to; None if it was rejected or did not arrive.
    rejected : list of str or None
        Why a request was rejected; None where it was not.
    instances : list of Instance
        With the rows of their steps and their usage.
    end : int
        Time of the last event, or the end of the simulated time.
    """

    sequences: list[Sequence]
    instance: list[int | None]
    rejected: list[str | None]
    instances: list[Instance]
    end: int = 0

    @property
    def first_token(self) -> list[int | None]:
        """When each request's first output token appeared."""
        return [s.token_times[0] if s.token_times else None for s in self.sequences]

    @property
    def finish(self) -> list[int | None]:
        """When each request's last output token appeared."""
        return [s.token_times[-1] if s.done else None for s in self.sequences]

    @property
    def status(self) -> list[Status]:
        """The status of each request."""
        queued = {s for instance in self.instances for s in instance.scheduler.queued}
        return [self._status_of(sequence, queued) for sequence in self.sequences]

    def _status_of(self, sequence: Sequence, queued: set[Sequence]) -> Status:
        if self.rejected[sequence.index] is not None:
            return "rejected"
        if self.instance[sequence.index] is None:
            return "not arrived"
        if sequence.done:
            return "finished"
        return "waiting" if sequence in queued else "running"


class Clocked(Protocol):
    """A simulation that advances from moment to moment."""

    @property
    def unfinished(self) -> bool:
        """Whether there is anything left to do."""
        ...

    def next_moment(self) -> int:
        """Return the time of the next event."""
        ...

    def pass_time(self, moment: int) -> None:
        """Account for the time until a moment, in which nothing changes."""
        ...

    def advance(self, now: int) -> None:
        """Process all events of a moment."""
        ...


def run(clocked: Clocked, until: int | None) -> None:
    """Run a clock until there is nothing left to do, or to ``until``, the events of that moment included."""
    while clocked.unfinished:
        now = clocked.next_moment()
        if until is not None and now > until:
            clocked.pass_time(until)
            return
        clocked.pass_time(now)
        clocked.advance(now)


class Fleet:
    """Instances behind a router, in the middle of a replay."""

    def __init__(self, instances: list[Instance], requests: Iterable[Request], routing: Routing) -> None:
        sequences = [Sequence(index, request) for index, request in enumerate(requests)]
        self.outcome = Outcome(sequences, [None] * len(sequences), [None] * len(sequences), instances)
        self._to_come = sequences.copy()
        self._router = Router(routing, instances)

    @property
    def _times(self) -> list[int]:
        ends = [instance.ends for instance in self.outcome.instances if instance.ends is not None]
        return ends + [sequence.request.arrival for sequence in self._to_come[:1]]

    @property
    def unfinished(self) -> bool:
        """Whether there is anything left to do."""
        return bool(self._times)

    def next_moment(self) -> int:
        """Return the time of the next event."""
        return min(self._times)

    def pass_time(self, moment: int) -> None:
        """Account for the time until a moment, in which nothing changes."""
        for instance in self.outcome.instances:
            instance.pass_time(moment - self.outcome.end)
        self.outcome.end = moment

    def advance(self, now: int) -> None:
        """End the steps that end now, route the requests that arrive now, and start steps."""
        instances = self.outcome.instances
        for instance in instances:
            if instance.ends == now:
                instance.end(now)
        while self._to_come and self._to_come[0].request.arrival == now:
            sequence = self._to_come.pop(0)
            picked = self._router.pick(sequence.request)
            if isinstance(picked, str):
                self.outcome.rejected[sequence.index] = picked
            else:
                self.outcome.instance[sequence.index] = picked
                instances[picked].arrive(sequence)
        for instance in instances:
            instance.start(now)


def replay_cluster(
    requests: Iterable[Request],
    instances: Iterable[tuple[Config, AffineCost]],
    routing: Routing = "round_robin",
    until: int | None = None,
) -> Outcome:
    """Replay requests through instances behind a router, one step at a time.

    The events of one moment are processed in this order: steps end, instance by instance; requests
    arrive, in the trace's order, and are routed; steps start. So a step sees all requests that have
    arrived by its start, and a router sees the tokens of an instance as of its last finished step. A
    request that no instance could ever finish is rejected on arrival.

    Parameters
    ----------
    requests : iterable of Request
        Sorted by arrival.
    instances : iterable of (config, cost)
        The settings of each instance, of any generation, and its cost.
    routing : {"round_robin", "fewest_requests", "fewest_tokens"}
        See :class:`~paceline.testing.reference.routing.Router`.
    until : int, optional
        The end of time. Events of that moment are processed; a step that ends later has no effect.

    Returns
    -------
    Outcome

    Raises
    ------
    RuntimeError
        If requests wait that no event can ever make run.

    Examples
    --------
    >>> from paceline.testing.reference import AffineCost, Request, VllmV1Config, replay_cluster
    >>> config = VllmV1Config(block_size=16, num_blocks=9, max_num_batched_tokens=64, max_num_seqs=4)
    >>> requests = [Request(0, 40, 3), Request(5, 40, 1), Request(7, 4000, 1)]
    >>> outcome = replay_cluster(requests, 2 * [(config, AffineCost(step=10))])
    >>> outcome.first_token, outcome.finish, outcome.rejected
    ([10, 15, None], [30, 15, None], [None, None, 'blocks'])
    """
    fleet = Fleet(
        [Instance(config, cost, config.scheduler()) for config, cost in instances], requests, routing
    )
    run(fleet, until)
    return fleet.outcome


def replay(requests: Iterable[Request], config: Config, cost: AffineCost) -> dict[str, list[Any]]:
    """Replay requests through one instance and return its decision log.

    Parameters
    ----------
    requests : iterable of Request
        Sorted by arrival.
    config : VllmV1Config, VllmV0Config or LayeredConfig
        The instance, and with it the scheduler's generation.
    cost : AffineCost
        The cost of a step, in the unit of the arrivals.

    Returns
    -------
    dict
        ``steps``, ``first_token_ns`` and ``finish_ns``, as in the decision logs; times in the
        unit of the arrivals, None for a rejected request.
    """
    outcome = replay_cluster(requests, [(config, cost)])
    return {
        "steps": outcome.instances[0].steps,
        "first_token_ns": outcome.first_token,
        "finish_ns": outcome.finish,
    }
