"""The network between the instances of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline import _check
from paceline._arguments import typed_fields
from paceline._clock import TICKS_PER_SECOND

__all__ = ["Links"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Links:
    """The network between instances: a port each, on which transfers queue, in each direction.

    Parameters
    ----------
    gbps
        Gigabits a second (10**9 bits) of an instance's port, each way.
    latency_s
        Seconds from when the last byte is sent until it is received.

    Raises
    ------
    ConfigError
        If a figure is out of range.

    Examples
    --------
    >>> Links(gbps=100).to_wire()
    {'bytes_per_s': 12500000000.0, 'latency': 0}
    """

    gbps: float
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        _check.positive("gbps of Links", self.gbps)
        _check.seconds("latency_s of Links", self.latency_s)

    def to_wire(self) -> dict[str, Any]:
        """Return the links as the engine reads them."""
        return {"bytes_per_s": self.gbps * 1e9 / 8, "latency": round(self.latency_s * TICKS_PER_SECOND)}
