"""What routers know: counts of their own decisions, and reports of the instances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paceline.testing.reference.policy_sim.instance_fields import fits_into, instance_field
from paceline.testing.reference.policy_sim.pacing import Pace
from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.request import Request

__all__ = ["Draws", "Routers"]

_KEPT = ("routed_requests", "routed_tokens", "routed_since_report", "routed_ever")
_KNOWN = ("total_blocks", "block_tokens", "role", "index", "prefill_s", "prefix_tokens")
_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15


def _mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
    return x ^ x >> 31


class Draws:
    """The random numbers of a router: splitmix64."""

    def __init__(self, seed: int, router: int) -> None:
        self._state = seed if router == 0 else seed ^ _mix(router * _GAMMA & _MASK)

    def below(self, n: int) -> int:
        """Return a number below ``n``."""
        self._state = self._state + _GAMMA & _MASK
        return _mix(self._state) % n

    def sample(self, of: list[int], k: int) -> list[int]:
        """Return ``k`` of some items, or all in a random order."""
        if len(of) < 2:
            return of.copy()
        around, drawn = of, list[int]()
        while around and len(drawn) < k:
            at = self.below(len(around))
            drawn.append(around[at])
            around = around[at + 1 :] + around[:at]
        return drawn


class Routers:
    """The routers of a cluster: each request is that of one of them, by its row."""

    def __init__(self, config: dict[str, Any], replicas: list[Replica], pace: Pace | None) -> None:
        given = config.get("routers") or {"count": 1, "report_every": None, "give_up_after": None, "seed": 0}
        self.count: int = given["count"]
        self.every: int | None = given["report_every"]
        self.give_up_after: int | None = given["give_up_after"]
        self.draws = [Draws(given["seed"], router) for router in range(self.count)]
        self._replicas, self._pace = replicas, pace
        self._fields = {*_fields(config["routing"]), ("requests", None), ("outstanding_tokens", None)}
        self._reported: dict[tuple[int, str, int | None], float] = {}
        self._routed: list[tuple[Request, int]] = []
        self._at: dict[int, int] = {}
        self._since = 0
        if self.every is not None:
            self.report(0)

    def router_of(self, row: int) -> int:
        """Return the router of a request."""
        return row % self.count

    def route(self, request: Request, index: int) -> None:
        """Note that a rule picked an instance for a request."""
        if self._at.get(request.index) != index:
            self._routed.append((request, index))
            self._at[request.index] = index

    def report(self, now: int) -> None:
        """Have all instances report."""
        self._since = len(self._routed)
        for replica in self._replicas:
            for name, position in self._fields:
                value = instance_field(name, replica, now, self._pace, None, position)
                self._reported[replica.index, name, position] = value

    def field(
        self,
        name: str,
        replica: Replica,
        now: int,
        request: Request | None,
        position: int | None,
        router: int | None,
    ) -> float:
        """Return a field of an instance, as a router knows it; ``None`` is a monitor."""
        if name in _KEPT:
            return self._kept(name, replica.index, router)
        if self.every is None or name in _KNOWN:
            return instance_field(name, replica, now, self._pace, request, position)
        if name == "fits":
            assert request is not None, name
            return fits_into(replica, request, self._reported[replica.index, "free_blocks", None])
        return self._reported[replica.index, name, position]

    def _kept(self, name: str, index: int, router: int | None) -> float:
        def mine(request: Request) -> bool:
            return router is None or self.router_of(request.index) == router

        begin = self._since if name == "routed_since_report" else 0
        sent = [request for request, to in self._routed[begin:] if to == index and mine(request)]
        if name in ("routed_since_report", "routed_ever"):
            return len(sent)
        there = {
            request.index: request.spec.prompt_tokens
            for request in sent
            if self._at[request.index] == index and not request.done and request.rejected is None
        }
        return len(there) if name == "routed_requests" else sum(there.values())


def _fields(part: Any) -> Iterator[tuple[str, int | None]]:  # noqa: ANN401 - any part of a configuration
    """Go over the fields that instances report among those that rules read, with the classes they count."""
    if isinstance(part, list):
        for one in part:
            yield from _fields(one)
    elif isinstance(part, dict):
        space, _, name = str(part.get("field", "")).partition(".")
        if space in ("inst", "here", "there") and name not in (*_KEPT, *_KNOWN):
            yield ("free_blocks", None) if name == "fits" else (name, part.get("class"))
        for one in part.values():
            yield from _fields(one)
