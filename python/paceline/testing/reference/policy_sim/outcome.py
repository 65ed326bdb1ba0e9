"""What a replay came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.refusal import Reason

Status = Literal["finished", "running", "waiting", "not arrived", "rejected"]


@dataclass(slots=True)
class Outcome:
    """What a replay came to.

    Attributes
    ----------
    requests : list of Request
        How far each one came, in the trace's order.
    instance : list of int or None
        Where each request was sent as it arrived.
    replicas : list of Replica
    end : int
        When the last thing happened, or the time ran out.
    """

    requests: list[Request]
    instance: list[int | None]
    replicas: list[Replica]
    end: int = 0

    @property
    def rejected(self) -> list[Reason | None]:
        """Why each request was rejected or dropped; None where it was not."""
        return [request.rejected for request in self.requests]

    def status(self, row: int) -> Status:
        """Where a request ended up; one in transfer has no place in a batch, and waits."""
        request = self.requests[row]
        if request.rejected is not None:
            return "rejected"
        if self.instance[row] is None:
            return "not arrived"
        if request.done:
            return "finished"
        return "running" if request.running else "waiting"
