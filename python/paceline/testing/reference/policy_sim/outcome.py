"""The outcome of a replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from paceline.testing.reference.policy_sim.links import Links
from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.roles import Change
from paceline.testing.reference.refusal import Reason

Status = Literal["finished", "running", "waiting", "not arrived", "rejected", "held", "gave up", "cancelled"]


@dataclass(slots=True)
class Outcome:
    """The outcome of a replay.

    Attributes
    ----------
    requests : list of Request
        The requests in their last state, in the trace's order.
    instance : list of int or None
        The instance that each request was routed to on arrival.
    replicas : list of Replica
    links : Links
        The network between them, and what it carried.
    end : int
        Time of the last event, or the end of the simulated time.
    flips : list of Change
        The changes of instances' pools, in order.
    held, gave_up : set of int
        Rows of the requests that routers hold, and of those that left them.
    before : list of list of Request
        The states in which each request ended before it was sent again.
    timeline : tuple or None
        The interval between samples, their moments, and a row of each replica at each; None if the
        configuration has no ``sample``.
    """

    requests: list[Request]
    instance: list[int | None]
    replicas: list[Replica]
    links: Links = field(default_factory=Links)
    end: int = 0
    flips: list[Change] = field(default_factory=list)
    held: set[int] = field(default_factory=set)
    gave_up: set[int] = field(default_factory=set)
    before: list[list[Request]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Note that no request has been sent twice."""
        self.before = [[] for _ in self.requests]

    timeline: tuple[int, list[int], list[dict[str, int]]] | None = None

    @property
    def rejected(self) -> list[Reason | None]:
        """Why each request was rejected or dropped; None where it was not."""
        return [request.rejected for request in self.requests]

    def status(self, row: int) -> Status:
        """Return the status of a request; a request in transfer is waiting."""
        request = self.requests[row]
        if request.cancelled is not None:
            return "cancelled"
        if request.rejected is not None:
            return "rejected"
        if row in self.held or row in self.gave_up:
            return "held" if row in self.held else "gave up"
        if self.instance[row] is None:
            return "not arrived"
        if request.done:
            return "finished"
        return "running" if request.running else "waiting"
