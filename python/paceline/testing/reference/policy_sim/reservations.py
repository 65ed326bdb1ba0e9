"""Requests that are offered as they arrive: their prompts are queued once their targets hold blocks."""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline.testing.reference.policy_sim.handover import Handover
from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.request import Request


@dataclass(slots=True)
class Reservation:
    """A request that was offered as it arrived.

    Attributes
    ----------
    request : Request
    handover : Handover
        Its hand-over, of a stand-in until the request leaves its source.
    accepted : bool
        Whether its target holds blocks for it, so that it is on its source.
    """

    request: Request
    handover: Handover
    accepted: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether the request has ended before it left its source."""
        return self.request.done or self.request.left or self.request.rejected is not None


@dataclass(slots=True)
class Reservations:
    """The requests that were offered as they arrived and have not left their source."""

    replicas: list[Replica]
    kept: list[Reservation] = field(default_factory=list)

    def announce(self, request: Request, source: int, target: int, now: int) -> None:
        """Offer a request that arrives."""
        prompt = request.spec.prompt_tokens
        stand_in = Request(request.index, request.spec, number=request.number, generated=1, computed=prompt)
        handover = Handover(stand_in, source, target, [], prompt, left=now, since=now, early=True)
        self.kept.append(Reservation(request, handover))
        self.replicas[target].expect(handover)

    def accept(self, handover: Handover) -> bool:
        """Note that a target has accepted a request; return whether that was offered as it arrived."""
        for one in self.kept:
            if one.handover is handover:
                one.accepted = True
                return True
        return False

    def queue_accepted(self, now: int) -> bool:
        """Queue the requests that were accepted, in the order of arrival; return whether there are any."""
        accepted = [one for one in self.kept if one.accepted and one.request.last is None]
        for one in sorted(accepted, key=lambda one: one.request.number):
            source = self.replicas[one.handover.source]
            one.request.acceptance_wait = now - one.handover.since
            one.request.announced = source.scheduler.ranking is None
            source.arrived.append(one.request.spec)
            source.arrive(one.request, now)
        return bool(accepted)

    def remove(self, request: Request) -> Handover | None:
        """Remove a request, and return its hand-over, if it was offered as it arrived."""
        one = next((one for one in self.kept if one.request is request), None)
        if one is None:
            return None
        self.kept.remove(one)
        return one.handover

    def waits(self, request: Request) -> bool:
        """Whether a request waits for its target to accept it."""
        return any(one.request is request and not one.accepted for one in self.kept)

    def release_ended(self) -> list[Reservation]:
        """Release what is reserved for requests that have ended; return these."""
        ended = [one for one in self.kept if one.has_ended]
        for one in ended:
            self.kept.remove(one)
            target = self.replicas[one.handover.target]
            if one.accepted:
                target.release_reserved(one.handover, received=False)
            else:
                target.call_off(one.handover)
        return ended
