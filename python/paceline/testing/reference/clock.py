"""The clock: arrivals, step starts and step ends, in their documented order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from paceline.testing.reference.cost import AffineCost
from paceline.testing.reference.instance import Config, Instance
from paceline.testing.reference.request import Request, Sequence
from paceline.testing.reference.routing import Router, Routing

Status = Literal["finished", "running", "waiting", "not arrived", "rejected"]


@dataclass(slots=True)
class Outcome:
    """What a replay came to.

    Attributes
    ----------
    sequences : list of Sequence
        Each request's progress, in the trace's order.
    instance : list of int or None
        The instance each request was sent to; None where it was rejected or did not arrive.
    rejected : list of str or None
        Why a request was rejected; None where it was not.
    instances : list of Instance
        With the rows of their steps and their usage.
    end : int
        When the last thing happened, or the time ran out.
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
        """Where each request ended up."""
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


def replay_cluster(
    requests: Iterable[Request],
    instances: Iterable[tuple[Config, AffineCost]],
    routing: Routing = "round_robin",
    until: int | None = None,
) -> Outcome:
    """Replay requests through instances behind a router, one step at a time.

    What happens at the same time happens in this order: steps end, the instances in turn;
    requests arrive, in the trace's order, and are routed; steps start. So a step sees all that
    has arrived by its start, and a router sees an instance as of its last finished step. A
    request that no instance could ever finish is rejected as it arrives.

    Parameters
    ----------
    requests : iterable of Request
        Sorted by arrival.
    instances : iterable of (config, cost)
        The settings of each instance, of any generation, and what its steps cost.
    routing : {"round_robin", "fewest_requests", "fewest_tokens"}
        See :class:`~paceline.testing.reference.routing.Router`.
    until : int, optional
        Where time stops. What happens then still happens; a step that ends later yields nothing.

    Returns
    -------
    Outcome

    Raises
    ------
    RuntimeError
        Where a scheduler leaves requests waiting that nothing can ever wake.

    Examples
    --------
    >>> from paceline.testing.reference import AffineCost, Request, VllmV1Config, replay_cluster
    >>> config = VllmV1Config(block_size=16, num_blocks=9, max_num_batched_tokens=64, max_num_seqs=4)
    >>> requests = [Request(0, 40, 3), Request(5, 40, 1), Request(7, 4000, 1)]
    >>> outcome = replay_cluster(requests, 2 * [(config, AffineCost(step=10))])
    >>> outcome.first_token, outcome.finish, outcome.rejected
    ([10, 15, None], [30, 15, None], [None, None, 'blocks'])
    """
    fleet = [Instance(config, cost, config.scheduler()) for config, cost in instances]
    router = Router(routing, fleet)
    sequences = [Sequence(index, request) for index, request in enumerate(requests)]
    outcome = Outcome(sequences, [None] * len(sequences), [None] * len(sequences), fleet)
    to_come = sequences.copy()
    while True:
        times = [instance.ends for instance in fleet if instance.ends is not None]
        times += [sequence.request.arrival for sequence in to_come[:1]]
        if not times:
            return outcome
        now = min(times)
        stops = until is not None and now > until
        moment = until if stops and until is not None else now
        for instance in fleet:
            instance.pass_time(moment - outcome.end)
        outcome.end = moment
        if stops:
            return outcome
        for instance in fleet:
            if instance.ends == now:
                instance.end(now)
        while to_come and to_come[0].request.arrival == now:
            sequence = to_come.pop(0)
            picked = router.pick(sequence.request)
            if isinstance(picked, str):
                outcome.rejected[sequence.index] = picked
            else:
                outcome.instance[sequence.index] = picked
                fleet[picked].arrive(sequence)
        for instance in fleet:
            instance.start(now)


def replay(requests: Iterable[Request], config: Config, cost: AffineCost) -> dict[str, list[Any]]:
    """Replay requests through one instance and return its decision log.

    Parameters
    ----------
    requests : iterable of Request
        Sorted by arrival.
    config : VllmV1Config, VllmV0Config or LayeredConfig
        The instance, and with it the scheduler's generation.
    cost : AffineCost
        What a step costs, in the unit of the arrivals.

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
