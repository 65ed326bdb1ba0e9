"""Bytes, FLOPs and joules of an instance, as the engine counted them.

All are exact whole numbers, in attojoules where they are energy: they stay Python integers until they are
divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["BYTES", "TrafficStats", "energy_j"]

#: Bytes from and to the GPUs' memory, by kind; they add up to ``hbm_bytes``.
BYTES: Final = (
    "weight_bytes",
    "expert_bytes",
    "kv_read_bytes",
    "kv_written_bytes",
    "activation_bytes",
    "swap_bytes",
)

# Microwatts over picoseconds are attojoules.
_ATTOJOULES = 10**18


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficStats:
    """Bytes, FLOPs and energy of the steps of one instance, over all its layers and GPUs.

    Attributes
    ----------
    weight_bytes, expert_bytes
        Weights read: routed experts, and all others.
    kv_read_bytes, kv_written_bytes
        Keys and values.
    activation_bytes
        Activations read and written.
    swap_bytes
        Keys and values copied to the CPU's memory and back.
    flops
        Floating-point operations.
    link_bytes
        Bytes that the GPUs of the instance sent to each other in its steps, by all-reduces and other
        exchanges. Transfers of KV between instances are in :class:`~paceline.result.network.NetworkStats`.
    work_aj
        Attojoules of all those and of the time in which steps ran; None if not known.
    idle_uw
        Microwatts of idle power, over the time for which the instance was switched on.
    """

    weight_bytes: int
    expert_bytes: int
    kv_read_bytes: int
    kv_written_bytes: int
    activation_bytes: int
    swap_bytes: int
    flops: int
    link_bytes: int
    work_aj: int | None
    idle_uw: int | None

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TrafficStats:
        """Build from decoded JSON; unknown counters are ignored."""
        return cls(**{name: fields[name] for name in cls.__dataclass_fields__})

    @property
    def hbm_bytes(self) -> int:
        """Bytes from and to the GPUs' memory, of all kinds."""
        return sum(getattr(self, name) for name in BYTES)


def energy_j(instances: Sequence[TrafficStats], on_ticks: Sequence[int]) -> float | None:
    """Return the joules of instances, each switched on for so long; None if one is not known."""
    total = 0
    for of, on in zip(instances, on_ticks, strict=True):
        if of.work_aj is None or of.idle_uw is None:
            return None
        total += of.work_aj + of.idle_uw * on
    return total / _ATTOJOULES
