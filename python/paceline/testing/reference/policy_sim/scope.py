"""What an expression can read: a moment, a request, and instances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from paceline.testing.reference.policy_sim.books import BOOKED, Books
from paceline.testing.reference.policy_sim.instance_fields import instance_field
from paceline.testing.reference.policy_sim.pacing import Pace
from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.request_fields import request_field
from paceline.testing.reference.policy_sim.routers import Routers


@dataclass(slots=True)
class View:
    """A moment, and the request and the instances that an expression can read.

    A field is computed again each time it is read.
    """

    now: int
    replicas: list[Replica]
    pace: Pace | None = None
    request: Request | None = None
    inst: Replica | None = None
    here: Replica | None = None
    there: Replica | None = None
    books: Books | None = None
    routers: Routers | None = None
    decode: bool = False

    def each(self, within: list[int] | None) -> Iterator[View]:
        """Go over the instances of some roles, each in turn as the candidate."""
        for replica in self.replicas:
            if within is None or replica.role in within:
                yield replace(self, inst=replica)

    def field(self, name: str, position: int | None) -> float:
        """Return a field by its name."""
        subject, _, rest = name.partition(".")
        if subject in ("req", "oracle"):
            assert self.request is not None, name
            if rest == "column":
                assert position is not None, name
                return self.request.spec.numbers[position]
            at = self.inst or self.here
            return request_field(rest, self.request, self.now, self.pace, self.replicas, at)
        replica = {"inst": self.inst, "here": self.here, "there": self.there}[subject]
        assert replica is not None, name
        if self.books is not None and rest in BOOKED:
            return self.books.field(rest, replica.index, self.request)
        if self.routers is None:
            return instance_field(rest, replica, self.now, self.pace, self.request, position)
        router = None if self.request is None else self.routers.router_of(self.request.number)
        return self.routers.field(rest, replica, self.now, self.request, position, router)
