"""The order in which requests without a place come in."""

from __future__ import annotations

from paceline.testing.reference.policy_sim.memory import Memory
from paceline.testing.reference.policy_sim.ranking import Ranking
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.settings import Settings


class Queue:
    """The requests of an instance that have no place in its batch.

    Attributes
    ----------
    waiting : list of Request
        New, landed and preempted ones. Where requests are ranked, swapped-out ones too.
    swapped : list of Request
        Swapped-out ones where requests are not ranked, in the order in which they come back.
    unknown : list of Request
        Arrivals that the scheduler does not know of yet, where it decides a step ahead.
    """

    def __init__(self, settings: Settings, memory: Memory, ranking: Ranking | None) -> None:
        self.waiting: list[Request] = []
        self.swapped: list[Request] = []
        self.unknown: list[Request] = []
        self._order = settings.order
        self._memory = memory
        self._ranking = ranking

    @property
    def everyone(self) -> list[Request]:
        """All of them."""
        return self.waiting + self.swapped + self.unknown

    @property
    def in_order(self) -> list[Request]:
        """Those of ``waiting``, the next one first."""
        if self._ranking is not None:
            return sorted(self.waiting, key=self._ranking.rank)
        if self._order["kind"] == "priority":
            return sorted(self.waiting, key=lambda request: (request.spec.priority, request.index))
        return self.waiting

    @property
    def first(self) -> Request | None:
        """The one of ``waiting`` that comes in next."""
        return next(iter(self.in_order), None)

    def put_back(self, request: Request) -> None:
        """Queue a request that was preempted and lost its memory: before all others, or by its rank."""
        self.waiting.insert(0, request)

    def remove(self, request: Request) -> None:
        """Take a request out that comes in or goes away."""
        for part in (self.waiting, self.swapped, self.unknown):
            if request in part:
                part.remove(request)

    def sort(self) -> None:
        """Put the longest cached prefixes first, where that is the order and not too many wait.

        The queue stays in that order; of equals the one that stood before stays before.
        """
        if self._order["kind"] == "longest_prefix" and len(self.waiting) <= self._order["most"]:
            prompt = {one: self._memory.hits(one, one.spec.prompt_tokens) for one in self.waiting}
            self.waiting.sort(key=lambda request: -len(prompt[request]))
