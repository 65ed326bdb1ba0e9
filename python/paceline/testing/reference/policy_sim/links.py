"""Links between instances, on which transfers queue."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

TICKS_PER_SECOND = 10**12


@dataclass(slots=True)
class Links:
    """A port out of and one into each instance; a transfer occupies both, first come, first served.

    Attributes
    ----------
    bytes_per_s : float or None
        Of each port, each way; None: transfers take no time.
    latency : int
        Ticks added to each transfer, in which the ports are free again.

    Examples
    --------
    >>> links = Links(bytes_per_s=1e12, latency=3)         # a byte a tick
    >>> links.send(0, 1, kv_bytes=10, now=0)
    (0, 13)
    >>> links.send(0, 2, kv_bytes=10, now=4)               # the port out of 0 is taken until 10
    (10, 23)
    >>> links.send(3, 2, kv_bytes=10, now=4)               # that into 2 until 20
    (20, 33)
    """

    bytes_per_s: float | None = None
    latency: int = 0
    out_free: dict[int, int] = field(default_factory=dict)
    in_free: dict[int, int] = field(default_factory=dict)

    def send(self, source: int, target: int, kv_bytes: float, now: int) -> tuple[int, int]:
        """Queue a transfer; return when its first byte is sent, and when it is delivered."""
        if self.bytes_per_s is None:
            return now, now
        start = max(now, self.out_free.get(source, 0), self.in_free.get(target, 0))
        ticks = math.ceil(Fraction(kv_bytes) * TICKS_PER_SECOND / Fraction(self.bytes_per_s))
        self.out_free[source] = self.in_free[target] = start + ticks
        return start, start + ticks + self.latency
