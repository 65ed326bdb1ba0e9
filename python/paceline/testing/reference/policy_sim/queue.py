"""The queue of an instance, and the order of admission."""

from __future__ import annotations

from collections.abc import Hashable

from paceline.testing.reference.policy_sim.memory import Memory
from paceline.testing.reference.policy_sim.ranking import Ranking
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.settings import Settings
from paceline.testing.reference.policy_sim.tree_memory import TreeMemory


class Queue:
    """The requests of an instance that are not in its batch.

    Attributes
    ----------
    waiting : list of Request
        New, migrated and preempted requests; if requests are ranked, swapped-out ones too.
    swapped : list of Request
        Swapped-out requests if requests are not ranked, in the order in which they resume.
    loading : list of Request
        Requests that hold blocks while a tier's copies of chunks are loaded into them, and until they are
        admitted, in the order in which the loads began.
    unknown : list of Request
        Arrivals that the scheduler does not know of yet: it decides a step ahead, or receives at some steps.
    """

    def __init__(self, settings: Settings, memory: Memory, ranking: Ranking | None) -> None:
        self.waiting: list[Request] = []
        self.swapped: list[Request] = []
        self.loading: list[Request] = []
        self.unknown: list[Request] = []
        self._order = settings.order
        self._by_entry = settings.requeue_last
        self._memory = memory
        self._ranking = ranking

    @property
    def requests(self) -> list[Request]:
        """All requests of the queue."""
        return self.waiting + self.swapped + self.loading + self.unknown

    @property
    def in_order(self) -> list[Request]:
        """The waiting requests in order of admission; under ranks those that accumulators let be admitted."""
        if self._ranking is not None:
            admitted = [request for request in self.waiting if self._ranking.admits(request)]
            return sorted(admitted, key=self._ranking.rank)
        if self._order["kind"] == "priority":
            key = _priority if self._by_entry else _priority_and_row
            return [request for part in (self.loading, self.waiting) for request in sorted(part, key=key)]
        return self.loading + self.waiting

    @property
    def first(self) -> Request | None:
        """The waiting request that is admitted next."""
        return next(iter(self.in_order), None)

    def requeue_first(self, request: Request) -> None:
        """Queue a request that was preempted and lost its KV before all others; a rank overrides that."""
        self.waiting.insert(0, request)

    def remove(self, request: Request) -> None:
        """Remove a request that is admitted or dropped."""
        if self._ranking is not None and request in self.waiting:
            self._ranking.accumulators.last = request
        for part in (self.waiting, self.swapped, self.loading, self.unknown):
            if request in part:
                part.remove(request)

    @property
    def sorts(self) -> bool:
        """Whether it is sorted by what is cached of its requests."""
        if self._order["kind"] == "longest_prefix":
            return len(self.waiting) <= int(self._order["most"])
        return bool(self._order["kind"] == "shared_prefix")

    def sort(self) -> None:
        """Sort by cached prefixes, if that is the order and not too many requests wait.

        The queue keeps that order; the sort is stable.
        """
        if not self.sorts:
            return
        if self._order["kind"] == "shared_prefix":
            assert isinstance(self._memory, TreeMemory)
            self.waiting[:] = self._memory.depth_first(self.waiting)
        else:
            last = self._sharing({one: self._memory.cached(one) for one in self.waiting})
            cached = {one: self._memory.cached_anywhere(one) for one in self.waiting}
            self.waiting.sort(key=lambda request: (request in last, -cached[request] * (request not in last)))

    def _sharing(self, cached: dict[Request, int]) -> set[Request]:
        """Return requests with few cached tokens that share as many with another one before them."""
        few = self._order.get("shares", 0)
        starts: set[Hashable] = set()
        found = set()
        for request in cached if few else ():
            start = self._memory.start(request, few)
            if cached[request] > few or start is None:
                continue
            if start in starts:
                found.add(request)
            starts.add(start)
        return found


def _priority(request: Request) -> int:
    return request.spec.priority


def _priority_and_row(request: Request) -> tuple[int, int]:
    return request.spec.priority, request.number
