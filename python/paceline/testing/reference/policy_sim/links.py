"""The network between instances: what a transfer crosses, and when all of that is free."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

TICKS_PER_SECOND = 10**12

Speed = dict[str, Any]
"""``bytes_per_s``, ``latency`` in ticks, and perhaps ``curve``: pairs of bytes and ticks."""


@dataclass(slots=True)
class Links:
    """A port of each instance, and what ports share; the fields are the engine's.

    A transfer takes the earliest interval in which all media on its path are free for as long as the slowest
    of them needs. Intervals that earlier transfers took do not move.

    Attributes
    ----------
    bytes_per_s : float or None
        Of each port, each way; None: transfers take no time.
    latency : int
        Ticks added to each transfer, in which the ports are free again.
    curve, nodes, inner, uplink, fabric, ports, pairs
        As in ``rust/core/src/config/links.rs``.
    taken : dict
        The intervals that transfers took, by the name of the medium.
    sent : list
        The bytes of each transfer.
    carried : dict
        The bytes of each transfer, by the name of the medium.

    Examples
    --------
    >>> links = Links(bytes_per_s=1e12, latency=3)         # a byte a tick
    >>> links.send(0, 1, kv_bytes=10, now=0)
    13
    >>> links.send(0, 2, kv_bytes=10, now=4)               # the port out of 0 is taken until 10
    23
    >>> links.send(3, 2, kv_bytes=10, now=4)               # the port into 2 is taken from 10 until 20
    33
    >>> links.send(3, 2, kv_bytes=6, now=4)                # free until 10
    13
    """

    bytes_per_s: float | None = None
    latency: int = 0
    curve: list[list[int]] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    inner: Speed | None = None
    uplink: Speed | None = None
    fabric: Speed | None = None
    ports: list[dict[str, Any]] = field(default_factory=list)
    pairs: list[dict[str, Any]] = field(default_factory=list)
    taken: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    sent: list[int] = field(default_factory=list)
    carried: dict[str, list[int]] = field(default_factory=dict)

    def send(self, source: int, target: int, kv_bytes: int, now: int) -> int:
        """Send a transfer and return when it is delivered."""
        return self.book(source, target, kv_bytes, now)[1]

    def book(self, source: int, target: int, kv_bytes: int, now: int) -> tuple[int, int]:
        """Send a transfer and return when its first byte is sent, and when it is delivered."""
        self.sent.append(kv_bytes)
        if self.bytes_per_s is None:
            return now, now
        path = self.path(source, target)
        duration = max(ticks(speed, kv_bytes) for speed in path.values())
        return self._take(path, duration, kv_bytes, now)

    def book_layers(
        self, source: int, target: int, layers: list[tuple[int, int]], now: int
    ) -> tuple[int, int]:
        """Send the layers of a transfer back to back, each a message that may be sent once it is ready.

        ``layers`` has the bytes of each layer and when it is ready. A sender that waits for each layer would
        have sent the last one at some moment; the transfer ends then, or later, without a gap.

        Examples
        --------
        >>> layers = ready_layers(40, 4, (100, 180))
        >>> Links(bytes_per_s=1e12).book_layers(0, 1, layers, now=100)   # the last is ready at 180
        (150, 190)
        >>> Links(bytes_per_s=2.5e11).book_layers(0, 1, layers, now=100)  # the first is ready at 120
        (120, 280)
        """
        kv_bytes = sum(size for size, _ in layers)
        path = self.path(source, target)
        waiting = total = 0
        for size, ready in layers:
            time = max(ticks(speed, size) for speed in path.values())
            waiting, total = max(waiting, ready) + time, total + time
        self.sent.append(kv_bytes)
        return self._take(path, total, kv_bytes, max(now, waiting - total))

    def _take(self, path: dict[str, Speed], duration: int, kv_bytes: int, now: int) -> tuple[int, int]:
        """Take the earliest interval, from a moment on, in which all media of a path are free."""
        latency = max(speed["latency"] for speed in path.values())
        taken = [each for medium in path for each in self.taken.get(medium, []) if each[1] > now]
        # The earliest start is now, or the end of another transfer.
        start = min(
            start
            for start in [now, *(end for _, end in taken)]
            if all(end <= start or start + duration <= begin for begin, end in taken) or duration == 0
        )
        for medium in path:
            self.carried.setdefault(medium, []).append(kv_bytes)
            if duration:
                self.taken.setdefault(medium, []).append((start, start + duration))
        return start, start + duration + latency

    def path(self, source: int, target: int) -> dict[str, Speed]:
        """Return the media that a transfer crosses, by name."""
        for pair in self.pairs:
            if (pair["source"], pair["target"]) == (source, target):
                return {f"pair {source} to {target}": pair["speed"]}
        from_, to = self._node(source), self._node(target)
        inner = self._port(source, "inner"), self._port(target, "inner")
        if from_ == to and inner[0] and inner[1]:
            return {f"inner port {source} out": inner[0], f"inner port {target} in": inner[1]}
        plain = {"bytes_per_s": self.bytes_per_s, "latency": self.latency, "curve": self.curve}
        path: dict[str, Speed] = {
            f"port {source} out": self._port(source, "outer") or plain,
            f"port {target} in": self._port(target, "outer") or plain,
        }
        if from_ != to and self.uplink:
            path |= {f"uplink {from_} out": self.uplink, f"uplink {to} in": self.uplink}
        if from_ != to and self.fabric:
            path |= {"fabric": self.fabric}
        return path

    def counters(self, end: int) -> dict[str, tuple[int, int, int]]:
        """Return transfers, bytes and busy ticks up to a moment, by the name of each medium that was used."""
        return {
            medium: (
                len(sizes),
                sum(sizes),
                sum(max(0, min(last, end) - min(first, end)) for first, last in self.taken.get(medium, [])),
            )
            for medium, sizes in self.carried.items()
        }

    def _node(self, instance: int) -> int:
        return self.nodes[instance] if self.nodes else instance

    def _port(self, instance: int, kind: str) -> Speed | None:
        own = [port[kind] for port in self.ports if port["instance"] == instance and port.get(kind)]
        return own[0] if own else (self.inner if kind == "inner" else None)


def ready_layers(kv_bytes: int, count: int, step: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the bytes of each layer, and when a step has computed it.

    Examples
    --------
    >>> ready_layers(10, 4, (100, 110))
    [(3, 103), (3, 105), (2, 108), (2, 110)]
    """
    start, end = step
    sizes = [kv_bytes // count + (layer < kv_bytes % count) for layer in range(count)]
    return [
        (size, start + math.ceil(Fraction((end - start) * layer, count)))
        for layer, size in enumerate(sizes, 1)
    ]


def ticks(speed: Speed, kv_bytes: int) -> int:
    """Return how long a message occupies a medium, rounded up.

    Examples
    --------
    >>> [ticks({"bytes_per_s": 1e12, "curve": [[4, 10], [6, 13]]}, size) for size in (0, 1, 5, 6, 8)]
    [0, 10, 12, 13, 15]
    """
    if kv_bytes == 0:
        return 0
    points = speed.get("curve") or [[0, 0]]
    if kv_bytes <= points[0][0]:
        return int(points[0][1])
    for (size, time), (next_size, next_time) in pairwise(points):
        if kv_bytes <= next_size:
            return int(time + math.ceil(Fraction((next_time - time) * (kv_bytes - size), next_size - size)))
    size, time = points[-1]
    return int(time + math.ceil((kv_bytes - size) * TICKS_PER_SECOND / Fraction(speed["bytes_per_s"])))
