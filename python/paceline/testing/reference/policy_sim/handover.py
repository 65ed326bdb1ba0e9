"""Hand-overs: requests that migrate with their KV, for which the target holds blocks before it is sent.

A request is offered to its target as it leaves its source, whose blocks stay allocated. The target
accepts offers in order, in the stage that admits: it allocates the blocks for the next step. The KV
that it lacks is sent then. Once that is received, the request waits with its blocks, ahead of the
queue. Where transfers overlap with prefills, a request is offered as the last step of its prompt starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from paceline.testing.reference.policy_sim.request import Request


@dataclass(slots=True, eq=False)
class Handover:
    """One hand-over of a request.

    Attributes
    ----------
    request : Request
    source, target : int
    blocks : list of int
        The blocks at the source, which stay allocated there until the KV is read or given up.
    tokens : int
        Tokens of KV in these.
    left : int
        When the request left the batch of its source, or leaves it.
    since : int
        When it was offered.
    copied : int
        Leading tokens whose KV the stages of a live migration have copied.
    lacking : int
        Tokens whose KV is to be sent; known once the target has accepted.
    early : bool
        Whether the request is still in the last step of its prompt. Until that has ended, ``request`` is a
        stand-in, with the blocks that the target reserves.
    sent, ends : int
        When the first byte is sent, and when all KV has been read.
    """

    request: Request
    source: int
    target: int
    blocks: list[int]
    tokens: int
    left: int
    since: int
    copied: int = 0
    lacking: int = 0
    early: bool = False
    sent: int = 0
    ends: int = 0


@dataclass(slots=True)
class Incoming:
    """The hand-overs to one instance.

    Attributes
    ----------
    rules : dict or None
        ``most_transfers`` and ``most_held``, as configured; None: requests are not handed over.
    at_once : bool
        Whether transfers take no time.
    offered : list of Handover
        Not accepted, in the order of their offers.
    accepted : list of Handover
        Accepted in the step that is formed.
    receiving : list of Request
        Accepted requests that lack KV.
    received : list of Request
        Requests whose KV has been received and that have not been admitted since, in that order; and those
        that were swapped in beside a reserve.
    seen, restored : list of Request
        Those of them that a decision beside two reserves has seen, and those that were swapped in.
    finished : list of Request
        Requests that finished with the latest step, until one is formed.
    finished_at : int
        When that ended.
    """

    rules: dict[str, Any] | None = None
    at_once: bool = False
    offered: list[Handover] = field(default_factory=list)
    accepted: list[Handover] = field(default_factory=list)
    receiving: list[Request] = field(default_factory=list)
    received: list[Request] = field(default_factory=list)
    seen: list[Request] = field(default_factory=list)
    restored: list[Request] = field(default_factory=list)
    finished: list[Request] = field(default_factory=list)
    finished_at: int = -1

    @property
    def reserve(self) -> dict[str, int] | None:
        """What an acceptance leaves for other requests."""
        return None if self.rules is None else self.rules.get("reserve")

    def tokens_of(self, request: Request) -> int:
        """Tokens for which it takes blocks: one more than its KV, unless it is offered beside a reserve."""
        return request.computed + (self.reserve is None or request.memory != "source")

    def finish(self, requests: list[Request], now: int) -> None:
        """Have those of a step's requests count that finish with it, until the next one is formed."""
        self.finished, self.finished_at = [one for one in requests if one.finished], now

    def forget_finished(self, now: int, swapped: list[Request]) -> bool:
        """Have them count no more; return whether there were any, and requests wait that may be accepted."""
        any_ = bool(self.just_finished(now)) and bool(self.offered or self.received or swapped)
        self.finished = []
        return any_

    def just_finished(self, now: int) -> list[Request]:
        """Return the requests that finished with a step that has just ended, beside a reserve."""
        return self.finished if self.reserve and self.finished_at == now else []

    def admit(self, request: Request) -> bool:
        """Have a request wait no more; return whether another instance had sent its KV."""
        sent = request not in self.restored
        for part in (self.received, self.seen, self.restored):
            part[:] = [one for one in part if one is not request]
        return sent

    @property
    def on_the_way(self) -> list[Request]:
        """The requests whose KV has not been received."""
        return [handover.request for handover in self.offered] + self.receiving

    @property
    def reserved_tokens(self) -> int:
        """Tokens of KV for which requests hold blocks that are still in the last step of their prompt."""
        return sum(request.computed for request in self.receiving if request.where is None)

    @property
    def held_blocks(self) -> int:
        """Blocks that accepted requests hold before their first step on the instance."""
        return sum(len(request.blocks) for request in self.receiving + self.received)

    def may_accept(self, total: int) -> bool:
        """Whether the rules allow one more request to be accepted, on an instance of ``total`` blocks."""
        assert self.rules is not None
        transfers, held = self.rules["most_transfers"], self.rules["most_held"]
        if transfers is not None and len(self.receiving) >= transfers:
            return False
        return held is None or self.held_blocks < held * total
