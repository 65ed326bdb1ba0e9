"""What routers know: counts of their own decisions, and reports of the instances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paceline.testing.reference.policy_sim.instance_fields import fits_into, instance_field
from paceline.testing.reference.policy_sim.pacing import Pace
from paceline.testing.reference.policy_sim.relay import Relay
from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.request import Request

__all__ = ["Draws", "Routers", "mix"]

_KEPT = ("routed_requests", "routed_tokens", "routed_since_report", "routed_ever")
_KNOWN = ("total_blocks", "block_tokens", "role", "index", "prefill_s", "prefix_tokens", "gauge")
_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    """Return a number in which every bit depends on every bit of ``x``."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
    return x ^ x >> 31


class Draws:
    """The random numbers of a router: splitmix64."""

    def __init__(self, seed: int, router: int) -> None:
        self._state = seed if router == 0 else seed ^ mix(router * _GAMMA & _MASK)

    def below(self, n: int) -> int:
        """Return a number below ``n``."""
        self._state = self._state + _GAMMA & _MASK
        return mix(self._state) % n

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
    """The routers of a cluster: each request is that of one of them, in turn."""

    def __init__(self, config: dict[str, Any], replicas: list[Replica], pace: Pace | None) -> None:
        given = config.get("routers") or {"count": 1, "report_every": None, "give_up_after": None, "seed": 0}
        self.count: int = given["count"]
        self.every: int | None = given["report_every"]
        self.give_up_after: int | None = given["give_up_after"]
        # Of the rules for arrivals, and of the one for the decode instance of an arrival.
        self.draws = [[Draws(given["seed"], router) for router in range(self.count)] for _ in range(2)]
        self._replicas, self._pace = replicas, pace
        self._fields = {*_fields(config["routing"]), ("requests", None), ("outstanding_tokens", None)}
        self._reported: dict[tuple[int, str, int | None], float] = {}
        self._routed: list[tuple[Request, int]] = []
        self._at: dict[int, set[int]] = {}
        self._since = 0
        self.relay: Relay | None = None
        if self.every is not None:
            self.report(0)
            if given.get("relay") is not None:
                self.relay = Relay(given["relay"], self.every, [self._fields_of(one, 0) for one in replicas])

    def router_of(self, number: int) -> int:
        """Return the router of a request, by its place in the order of arrival."""
        return number % self.count

    def route(self, request: Request, index: int) -> None:
        """Note that a rule picked an instance for a request."""
        if index not in self._at.get(request.number, ()):
            self._routed.append((request, index))
            self._at[request.number] = {index}

    def route_both(self, request: Request, prefill: int, decode: int) -> None:
        """Note that rules picked two instances for an arriving request: it counts on both."""
        self._routed += [(request, index) for index in sorted({prefill, decode})]
        self._at[request.number] = {prefill, decode}

    def report(self, now: int) -> None:
        """Have all instances report, or a relay publish what they told it."""
        self._since = len(self._routed)
        relayed = None if self.relay is None else self.relay.publish(now)
        for replica in self._replicas:
            fields = self._fields_of(replica, now) if relayed is None else relayed[replica.index]
            for (name, position), value in fields.items():
                self._reported[replica.index, name, position] = value

    def _fields_of(self, replica: Replica, now: int) -> dict[tuple[str, int | None], float]:
        return {
            (name, position): instance_field(name, replica, now, self._pace, None, position)
            for name, position in self._fields
        }

    def tell(self, replica: Replica, step: int, now: int) -> None:
        """Have an instance tell the relay its fields, if there is one and its counts have changed."""
        if self.relay is not None:
            running, waiting = (
                instance_field(name, replica, now, self._pace, None, None) for name in ("running", "waiting")
            )
            self.relay.tell(replica.index, step, (running, waiting), self._fields_of(replica, now))

    def next_report(self, after: int) -> int | None:
        """Return when instances report next, or the relay publishes."""
        if self.every is None:
            return None
        return (after // self.every + 1) * self.every if self.relay is None else self.relay.due

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
            return router is None or self.router_of(request.number) == router

        begin = self._since if name == "routed_since_report" else 0
        sent = [request for request, to in self._routed[begin:] if to == index and mine(request)]
        if name in ("routed_since_report", "routed_ever"):
            return len(sent)
        there = {
            request.number: request.spec.prompt_tokens
            for request in sent
            if index in self._at[request.number]
            and not (request.done or request.left or request.rejected is not None)
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
