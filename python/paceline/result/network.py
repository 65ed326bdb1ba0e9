"""Counters of the network between instances: transfers of KV, and the media that they crossed.

Bytes that the GPUs of one instance send to each other are counted elsewhere: ``link_bytes`` of
:class:`~paceline.result.traffic.TrafficStats`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from paceline._arguments import typed, typed_fields
from paceline._clock import TICKS_PER_SECOND
from paceline.errors import ResultError

__all__ = ["MediumStats", "NetworkStats"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(ResultError)
class MediumStats:
    """The counters of one medium.

    Attributes
    ----------
    medium
        Its name: ``port 0 out`` and ``port 0 in`` of instance 0, likewise ``inner port`` and, of a node,
        ``uplink``; ``fabric``; ``pair 0 to 1``.
    transfers, bytes
        Transfers sent over it, and their bytes.
    busy_ticks
        The time in which transfers occupied it, up to the end of the replay.
    """

    medium: str
    transfers: int
    bytes: int
    busy_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(ResultError)
class NetworkStats:
    """The counters of the network.

    Attributes
    ----------
    transfers
        Transfers sent by the end of the replay: of requests, and each stage of a live migration.
    bytes
        Their bytes, each counted once, however many media it crosses.
    media
        The counters of each medium; none if the cluster has no links.
    """

    transfers: int = 0
    bytes: int = 0
    media: tuple[MediumStats, ...] = ()

    @classmethod
    @typed(ResultError)
    def from_dict(cls, fields: dict[str, Any]) -> NetworkStats:
        """Build from decoded JSON; unknown counters are ignored."""
        names = MediumStats.__dataclass_fields__
        media = (MediumStats(**{name: medium[name] for name in names}) for medium in fields["media"])
        return cls(transfers=fields["transfers"], bytes=fields["bytes"], media=tuple(media))

    @typed(ResultError)
    def frame(self, end_ticks: int) -> pl.DataFrame:
        """Return a row per medium, with the share of the replay in which it was busy."""
        rows = [
            {
                "medium": of.medium,
                "transfers": of.transfers,
                "bytes": of.bytes,
                "busy_s": of.busy_ticks / TICKS_PER_SECOND,
                "busy_share": of.busy_ticks / end_ticks if end_ticks else 0.0,
            }
            for of in self.media
        ]
        return pl.DataFrame(rows, schema=_SCHEMA)


_SCHEMA: dict[str, pl.DataType] = {
    "medium": pl.String(),
    "transfers": pl.UInt64(),
    "bytes": pl.UInt64(),
    "busy_s": pl.Float64(),
    "busy_share": pl.Float64(),
}
