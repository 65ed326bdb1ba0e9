"""Migration: transfers over links, periodic migrations, and live ones in stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from paceline.testing.reference.blocks import blocks_for
from paceline.testing.reference.policy_sim.expression import Expr, holds, sort_keys
from paceline.testing.reference.policy_sim.handover import Handover
from paceline.testing.reference.policy_sim.links import Links, ready_layers
from paceline.testing.reference.policy_sim.pacing import Pace
from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.request import Request, Transfer
from paceline.testing.reference.policy_sim.reservations import Reservations
from paceline.testing.reference.policy_sim.routers import Routers
from paceline.testing.reference.policy_sim.scope import View


@dataclass(slots=True)
class Move:
    """A request in transfer, and the blocks that it still holds at its source."""

    request: Request
    source: int
    target: int
    blocks: list[int]
    ends: int


@dataclass(slots=True)
class Copy:
    """A stage of a live migration: KV that is copied while the request runs.

    Attributes
    ----------
    tokens : int
        Tokens of KV that are at the target once the stage ends.
    stages : int
        Stages so far, this one included.
    preemptions : int
        Preemptions of the request when the migration began.
    moves : int
        Migrations of the request by then.
    """

    request: Request
    source: int
    target: int
    tokens: int
    ends: int
    most_stages: int
    last_blocks: int
    preemptions: int
    moves: int
    stages: int = 1


@dataclass(slots=True)
class Traffic:
    """All transfers between instances.

    With ``lease``, the ticks after which an offer is withdrawn that is not accepted; None: never.
    ``overlaps``: whether requests are offered as the last step of their prompt starts, and sent by layer.
    ``announces``: whether they are offered as they arrive.
    """

    replicas: list[Replica]
    links: Links
    pace: Pace | None
    hands_over: bool = False
    lease: int | None = None
    overlaps: bool = False
    moves: list[Move] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    offered: list[Handover] = field(default_factory=list)
    reads: list[Handover] = field(default_factory=list)
    early: list[Handover] = field(default_factory=list)
    announces: bool = False
    reserved: Reservations = field(init=False)
    changed: Callable[[int], None] = lambda now: None
    """Called when a request has left an instance or joined one."""
    routers: Routers | None = None

    def __post_init__(self) -> None:
        """Note that no request has arrived."""
        self.reserved = Reservations(self.replicas)

    def send(self, request: Request, instance: int, target: int | None, now: int) -> None:
        """Send a request that arrives to an instance, or offer it first to the one on which it decodes."""
        if self.announces and target is not None and target != instance:
            self.reserved.announce(request, instance, target, now)
        else:
            self.replicas[instance].arrived.append(request.spec)
            self.replicas[instance].arrive(request, now)
        self.changed(now)

    @property
    def ends(self) -> list[int]:
        """The end of each transfer and of each offer."""
        transfers: list[Move | Copy | Handover] = [*self.moves, *self.copies, *self.reads]
        leases = [] if self.lease is None else [one.left + self.lease for one in self.offered]
        return [one.ends for one in transfers] + leases

    def leave(self, request: Request, target: int, now: int, already: int = 0) -> None:
        """Send a request to another instance, which has ``already`` tokens of its KV."""
        assert request.where is not None
        source = request.where
        if self.routers is not None:
            self.routers.route(request, target)
        if (reserved := self.reserved.remove(request)) is not None:
            self._leave_as_reserved(request, reserved, now)
            return
        if self.hands_over:
            early = next((one for one in self.early if one.request.number == request.number), None)
            if early is not None:
                self._leave_as_expected(request, early, now)
                return
            handover = self.replicas[source].hand_over(request, target, now, already)
            self.changed(now)
            self.offered.append(handover)
            self.replicas[target].offer(handover)
            self.changed(now)
            return
        blocks = self.replicas[source].leave(request, now)
        self.changed(now)
        states = self.replicas[source].state_bytes  # they change with every token: no stage copied them
        _, ends = self._send(source, target, request.computed - already, now, states)
        self.moves.append(Move(request, source, target, blocks, ends))
        request.transfers.append(Transfer(now, ends))

    def expect(self, source: Replica, targets: dict[int, int | None], now: int) -> bool:
        """Offer the requests whose prompts end with a step that starts now; return whether there are any."""
        step, ends = source.step, source.ends
        if not self.overlaps or step is None or step.start != now or ends is None:
            return False
        known = {one.request.number for one in self.early}
        any_offered = False
        for request in source.ending:
            target = targets.get(request.number)
            if target is None or target == source.index or request.number in known:
                continue
            any_offered = True
            if (reserved := self.reserved.remove(request)) is not None:
                reserved.since, reserved.left = now, ends
                self.early.append(reserved)
                self._read(reserved, now)
                continue
            prompt = request.spec.prompt_tokens
            stand_in = Request(
                request.index, request.spec, number=request.number, generated=1, computed=prompt
            )
            handover = Handover(stand_in, source.index, target, [], prompt, left=ends, since=now, early=True)
            self.early.append(handover)
            self.offered.append(handover)
            self.replicas[target].expect(handover)
            self.changed(now)
        return any_offered

    def _leave_and_confirm(self, request: Request, handover: Handover, now: int) -> None:
        source = self.replicas[handover.source]
        handover.blocks = source.leave(request, now)
        source.outgoing.append(handover)
        self.changed(now)
        self.replicas[handover.target].confirm(handover, request, now)
        self.changed(now)

    def _leave_as_reserved(self, request: Request, handover: Handover, now: int) -> None:
        handover.since = handover.left = now
        self._leave_and_confirm(request, handover, now)
        self._read(handover, now)

    def _leave_as_expected(self, request: Request, handover: Handover, now: int) -> None:
        assert handover.left == now
        self.early.remove(handover)
        if handover in self.offered:
            # Leases end in the order in which requests left.
            self.offered.remove(handover)
            self.offered.append(handover)
        self._leave_and_confirm(request, handover, now)

    def deliver(self, now: int) -> None:
        """End the transfers that end now, and begin the next stages; then end the leases."""
        self._release_ended(now)
        for handover in [one for one in self.early if one.left == now]:
            # It ended with its first token.
            self.early.remove(handover)
            if handover in self.offered:
                self.offered.remove(handover)
                self.replicas[handover.target].call_off(handover)
                self.changed(now)
        while ended := [one for one in self.copies if one.ends == now]:
            for copy in ended:
                self.copies.remove(copy)
                self._end_stage(copy, now)
        for move in [one for one in self.moves if one.ends == now]:
            self.moves.remove(move)
            self.replicas[move.source].free_sent(move.blocks, move.request)
            self.replicas[move.target].arrive(move.request, now)
            self._drop_cancelled(move.request, move.target, now)
            self.changed(now)
        for handover in [one for one in self.reads if one.ends == now]:
            self.reads.remove(handover)
            if handover.early:
                self.replicas[handover.target].release_reserved(handover)
                self.changed(now)
                continue
            self._end_read(handover, now)
            self.replicas[handover.target].receive(handover.request, now)
            self._drop_cancelled(handover.request, handover.target, now)
            self.changed(now)
        for handover in self.offered.copy():
            if self.lease is not None and handover.left + self.lease == now:
                self.offered.remove(handover)
                self._end_handover(handover, now, waited_until=now)
                self.replicas[handover.target].withdraw(handover.request, now)
                self.changed(now)

    def cancel(self, request: Request, now: int) -> None:
        """Remove a request that was cancelled; one that is in transfer leaves once it has arrived."""
        if request.place in ("moving", "receiving"):
            return
        if self.reserved.waits(request):
            request.left = True
            return
        offer = next((one for one in self.offered if one.request is request), None)
        if offer is not None:
            self.offered.remove(offer)
            self.replicas[offer.target].withdraw_cancelled(offer)
            self.replicas[offer.source].end_handover(offer)
        else:
            assert request.where is not None
            self.replicas[request.where].cancel(request, now)
        self.changed(now)

    def _drop_cancelled(self, request: Request, target: int, now: int) -> None:
        if request.cancelled is not None:
            self.replicas[target].cancel(request, now)

    def send_accepted(self, now: int) -> bool:
        """Send the KV of requests accepted in steps that start now, and queue those that were offered before.

        Return whether an instance may start a step because of that.
        """
        self._release_ended(now)
        read = False
        for target in self.replicas:
            incoming = target.scheduler.state.incoming
            accepted, incoming.accepted = incoming.accepted, []
            for handover in accepted:
                if self.reserved.accept(handover):
                    continue
                self.offered.remove(handover)
                nothing = handover.lacking == 0 and not target.state_bytes
                if not handover.early and (incoming.at_once or nothing):
                    if incoming.at_once:
                        self.links.sent.append(self._bytes(handover))
                    handover.sent = handover.ends = now
                    self._end_read(handover, now)
                    read = True
                else:
                    self._read(handover, now)
        queued = self.reserved.queue_accepted(now)
        if queued:
            self.changed(now)
        return read or queued

    def _bytes(self, handover: Handover) -> int:
        source = self.replicas[handover.source]
        return handover.lacking * source.kv_bytes + source.state_bytes

    def _read(self, handover: Handover, now: int) -> None:
        """Begin a transfer that ends later, or in the next round of deliveries."""
        target, source = self.replicas[handover.target], self.replicas[handover.source]
        kv, at_once = self._bytes(handover), target.scheduler.state.incoming.at_once
        if at_once or not (handover.lacking or target.state_bytes):
            if at_once:
                self.links.sent.append(kv)
            handover.sent = handover.ends = handover.left
        elif self.overlaps:
            layers = ready_layers(kv, source.kv_layers, (handover.since, handover.left))
            handover.sent, handover.ends = self.links.book_layers(source.index, target.index, layers, now)
        else:
            handover.sent, handover.ends = self.links.book(source.index, target.index, kv, now)
        self.reads.append(handover)

    def _release_ended(self, now: int) -> None:
        for _ in self.reserved.release_ended():
            self.changed(now)

    def act(self, action: dict[str, Any], now: int) -> None:
        """Run an action of a monitor: pair instances, and migrate a request of each pair."""
        sources, targets = (self._sorted(action[side], now) for side in ("source", "target"))
        for source, target in zip(sources, targets, strict=False):
            between = View(now, self.replicas, self.pace, here=source, there=target, routers=self.routers)
            if source is target or not holds(action["when"], between):
                continue
            request = self._choose(action["choose"], source, target, now)
            if request is None:
                continue
            if action["live"] is None or action["live"]["stages"] == 0:
                self._leave_soon(request, source, target.index, now)
                continue
            _, ends = self._send(source.index, target.index, request.computed, now)
            live = action["live"]
            self.copies.append(
                Copy(
                    request,
                    source.index,
                    target.index,
                    request.computed,
                    ends,
                    most_stages=live["stages"],
                    last_blocks=live["last_blocks"],
                    preemptions=request.preemptions,
                    moves=len(request.transfers),
                )
            )

    # -- their parts ----------------------------------------------------------------------

    def _end_read(self, handover: Handover, now: int) -> None:
        """End a transfer to a target that has all KV of the request now."""
        self._end_handover(handover, now, waited_until=handover.sent)
        self.replicas[handover.target].counts.landed += 1

    def _end_handover(self, handover: Handover, now: int, *, waited_until: int) -> None:
        self.replicas[handover.source].end_handover(handover)
        handover.request.transfers.append(Transfer(handover.left, now))
        handover.request.handover_wait += max(0, waited_until - handover.left)

    def _send(self, source: int, target: int, tokens: int, now: int, states: int = 0) -> tuple[int, int]:
        return self.links.book(source, target, tokens * self.replicas[source].kv_bytes + states, now)

    def _end_stage(self, copy: Copy, now: int) -> None:
        request, source = copy.request, self.replicas[copy.source]
        moved = request.where != copy.source or len(request.transfers) != copy.moves
        if moved or request.preemptions != copy.preemptions:
            return  # it finished, migrated or was preempted meanwhile, so the copy is of no use
        since = request.computed - copy.tokens
        if copy.stages >= copy.most_stages or blocks_for(since, source.block_tokens) <= copy.last_blocks:
            self._leave_soon(request, source, copy.target, now, copy.tokens)
            return
        _, ends = self._send(copy.source, copy.target, since, now)
        self.copies.append(replace(copy, tokens=request.computed, ends=ends, stages=copy.stages + 1))

    def _leave_soon(self, request: Request, source: Replica, target: int, now: int, already: int = 0) -> None:
        """Have a request leave at the end of the running step, or now if there is none."""
        if source.step is None:
            self.leave(request, target, now, already)
        else:
            source.leaving[request] = target, already

    def _sorted(self, side: dict[str, Any], now: int) -> list[Replica]:
        within: list[int] | None = side["within"]
        able = [
            one
            for one in self.replicas
            if (within is None or one.role in within) and holds(side["where"], self._view(one, now))
        ]
        return sorted(able, key=lambda one: sort_keys(side["min"], self._view(one, now)))

    def _view(self, one: Replica, now: int, request: Request | None = None) -> View:
        return View(now, self.replicas, self.pace, request, inst=one, here=one, routers=self.routers)

    def _choose(self, choose: dict[str, Any], source: Replica, target: Replica, now: int) -> Request | None:
        """Choose the request to migrate: one that decodes and is not migrating already."""
        busy = {copy.request for copy in self.copies} | set(source.leaving)
        able = [
            request
            for request in source.requests
            if request.running
            and request.decoding
            and request not in busy
            and target.refusal(request.spec) is None
        ]
        able = [request for request in able if holds(choose["where"], self._view(source, now, request))]
        keys: list[Expr] = choose["min"]
        return min(
            able,
            key=lambda request: (sort_keys(keys, self._view(source, now, request)), request.number),
            default=None,
        )
