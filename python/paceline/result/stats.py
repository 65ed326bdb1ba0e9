"""Counters of a replay: the engine's, and the frame of instances computed from them.

The engine integrates over time in integers that may need more than 64 bits
(running requests times picoseconds), so they stay Python integers until they
are divided.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from paceline._arguments import typed, typed_fields
from paceline._check import said
from paceline._clock import TICKS_PER_SECOND
from paceline.errors import ResultError
from paceline.result.flip import Flip, flips_from_json
from paceline.result.network import NetworkStats
from paceline.result.roles import spans_in
from paceline.result.traffic import BYTES, TrafficStats, energy_j

__all__ = ["InstanceStats", "ReplayStats"]


_SHORT = frozenset({"block_tokens", "peak_running", "peak_waiting"})
"""Counters of 32 bits."""

_LONG = frozenset({"running_ticks", "waiting_ticks", "kv_token_ticks"})
"""Integrals over time, of 128 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(ResultError)
class InstanceStats:
    """The counters of one instance.

    Attributes
    ----------
    blocks, block_tokens
        Usable KV blocks and tokens in each.
    steps, busy_ticks
        Steps run, and the time in them.
    prefill_tokens, decode_tokens
        Tokens computed by prefill, recomputation included, and by decode.
    preemptions, finished, cancelled
        Preemptions, and requests that finished here, or left as their clients had cancelled them.
    swapped_out_blocks, swapped_in_blocks
        Blocks copied to the CPU's memory and back.
    swap_overflows
        Preemptions by recompute because the CPU's memory had no room.
    expired_offers
        Requests whose KV was given up, since they were not accepted within the lease of their hand-over.
    discarded_tokens
        Tokens computed of requests that had ended, in steps that were decided ahead (asynchronous
        scheduling). They are in no other count of tokens; the work of the step has them.
    prefix_queries, prefix_hits
        Tokens looked up in the prefix cache, once for each admission, and those
        of them that were found.
    evictions
        Cached blocks that were evicted.
    extrapolated
        Steps with a cost beyond what was measured, by axis of the tables.
    peak_running, peak_waiting, peak_blocks
        The largest values at any moment.
    running_ticks, waiting_ticks, kv_token_ticks
        Integrals over time of running and waiting requests and of tokens held.
    traffic
        Bytes, FLOPs and energy; None if its model is not known.
    drafts
        Counts of drafts: `verifications` (steps of requests that verified any), `proposed`,
        `computed`, `accepted`, and `trimmed` past a request's last token. Empty if tokens are not drafted.
    tier
        Counts of the tier in the host's memory: its `capacity` in chunks, the most at once (`peak_chunks`),
        `stored_blocks`, `loaded_blocks`, `evicted_blocks`, `refused_stores` for want of room, and
        `whole_loads` of all tokens of a request. Empty without a tier.
    store
        Counts of its copies between that tier and a store below it: `written_blocks`, `read_blocks`, the
        chunks that were there and not read, as the tier had no room (`refused_reads`), and the number of the
        `store` in `ReplayStats.stores`. Empty without a store.
    """

    blocks: int
    block_tokens: int
    steps: int
    busy_ticks: int
    decode_tokens: int
    prefill_tokens: int
    preemptions: int
    swapped_out_blocks: int
    swapped_in_blocks: int
    swap_overflows: int
    prefix_queries: int
    prefix_hits: int
    evictions: int
    extrapolated: dict[str, int]
    finished: int
    peak_running: int
    peak_waiting: int
    peak_blocks: int
    running_ticks: int
    waiting_ticks: int
    kv_token_ticks: int
    expired_offers: int = 0
    cancelled: int = 0
    discarded_tokens: int = 0
    traffic: TrafficStats | None = None
    drafts: dict[str, int] = field(default_factory=dict)
    tier: dict[str, int] = field(default_factory=dict)
    store: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            bits = 32 if name in _SHORT else 128 if name in _LONG else 64
            if isinstance(value, int) and not 0 <= value < 2**bits:
                raise ResultError(
                    f"{name} of the counters of an instance must be 0 to 2**{bits} - 1, was {said(value)}"
                )

    @classmethod
    @typed(ResultError)
    def from_dict(cls, fields: dict[str, Any]) -> InstanceStats:
        """Build from decoded JSON; unknown counters are ignored.

        Raises
        ------
        ResultError
            If a counter is missing.
        """
        optional = ("traffic", "expired_offers", "cancelled", "discarded_tokens", "drafts", "tier", "store")
        _check_all(cls, fields, but=optional)
        names = [name for name in cls.__dataclass_fields__ if name != "traffic" and name in fields]
        moved = fields.get("traffic")
        traffic = None if moved is None else TrafficStats.from_dict(moved)
        return cls(**{name: fields[name] for name in names}, traffic=traffic)


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(ResultError)
class ReplayStats:
    """The counters of the whole replay.

    Attributes
    ----------
    end_ticks
        The clock when the replay stopped.
    steps, events
        Steps run by all instances, and events handled.
    instances
        Counters of each instance, by index.
    network
        Counters of the network between them; zeros in results that were saved without them.
    roles
        The pool of each instance at the start; empty without pools.
    flips
        The changes of pools, in order.
    switched_off
        The pools whose instances draw no idle power.
    stores
        Counts of each store below tiers, over all instances that share it: its `capacity` in chunks (None
        without bounds), the `chunks` in it at the end and the most at once (`peak_chunks`),
        `written_blocks`, `read_blocks`, `evicted_chunks`, and `refused_chunks` for want of room.
    """

    end_ticks: int
    steps: int
    events: int
    instances: tuple[InstanceStats, ...]
    network: NetworkStats = field(default_factory=NetworkStats)
    roles: tuple[str, ...] = ()
    flips: tuple[Flip, ...] = ()
    switched_off: tuple[str, ...] = ()
    stores: tuple[dict[str, int | None], ...] = ()

    @classmethod
    @typed(ResultError)
    def from_json(
        cls, text: bytes, *, roles: tuple[str, ...] = (), flips: bytes = b"[]", pools: tuple[str, ...] = ()
    ) -> ReplayStats:
        """Read the engine's counters.

        Parameters
        ----------
        text
            The counters.
        roles
            The pool of each instance at the start; empty without pools.
        flips, pools
            The changes of pools, and the names of pools by code.

        Raises
        ------
        ResultError
            If the text is not JSON, or a counter is missing.
        """
        try:
            stats = cls.from_dict(json.loads(text))
            return replace(stats, roles=roles, flips=flips_from_json(flips, pools)) if roles else stats
        except ValueError as error:
            raise ResultError(f"the counters of a replay must be JSON: {error}") from error

    @classmethod
    @typed(ResultError)
    def from_dict(cls, fields: dict[str, Any]) -> ReplayStats:
        """Build from decoded JSON; unknown counters are ignored.

        Raises
        ------
        ResultError
            If a counter is missing.
        """
        _check_all(cls, fields, but=("network", "roles", "flips", "switched_off", "stores"))
        network = fields.get("network")
        return cls(
            end_ticks=fields["end_ticks"],
            steps=fields["steps"],
            events=fields["events"],
            instances=tuple(InstanceStats.from_dict(instance) for instance in fields["instances"]),
            network=NetworkStats() if network is None else NetworkStats.from_dict(network),
            roles=tuple(fields.get("roles", ())),
            flips=tuple(Flip.from_dict(flip) for flip in fields.get("flips", ())),
            switched_off=tuple(fields.get("switched_off", ())),
            stores=tuple(fields.get("stores", ())),
        )

    @property
    def extrapolated(self) -> dict[str, int]:
        """Steps with a cost beyond what was measured, by axis, over all instances."""
        total: dict[str, int] = {}
        for instance in self.instances:
            for axis, steps in instance.extrapolated.items():
                total[axis] = total.get(axis, 0) + steps
        return total

    def on_ticks(self) -> list[int]:
        """Return the time for which each instance was switched on: in no pool of `switched_off`."""
        on = [self.end_ticks] * len(self.instances)
        for instance, _, start, end in spans_in(self, self.switched_off):
            on[instance] -= end - start
        return on

    def frame(self) -> pl.DataFrame:
        """Return a row per instance, in seconds, tokens and shares."""
        return pl.DataFrame([self._row(index) for index in range(len(self.instances))], schema=_SCHEMA)

    def _row(self, index: int) -> dict[str, float | int | None]:
        of = self.instances[index]
        end, capacity = self.end_ticks, of.blocks * of.block_tokens
        figures = traffic_figures((of,), (self.on_ticks()[index],))
        return {
            "instance": index,
            "blocks": of.blocks,
            "block_tokens": of.block_tokens,
            "finished": of.finished,
            "steps": of.steps,
            "prefill_tokens": of.prefill_tokens,
            "decode_tokens": of.decode_tokens,
            "preemptions": of.preemptions,
            "swapped_out_blocks": of.swapped_out_blocks,
            "swapped_in_blocks": of.swapped_in_blocks,
            "swap_overflows": of.swap_overflows,
            "expired_offers": of.expired_offers,
            "discarded_tokens": of.discarded_tokens,
            "prefix_queries": of.prefix_queries,
            "prefix_hits": of.prefix_hits,
            "evictions": of.evictions,
            "on_s": self.on_ticks()[index] / TICKS_PER_SECOND,
            "busy_s": of.busy_ticks / TICKS_PER_SECOND,
            "busy_share": ratio(of.busy_ticks, end),
            "mean_batch": ratio(of.running_ticks, end),
            "mean_batch_busy": ratio(of.running_ticks, of.busy_ticks),
            "mean_waiting": ratio(of.waiting_ticks, end),
            "mean_kv_use": ratio(of.kv_token_ticks, end * capacity),
            "peak_kv_use": ratio(of.peak_blocks, of.blocks),
            "peak_running": of.peak_running,
            "peak_waiting": of.peak_waiting,
            **{name: None if v is None else float(v) for name, v in figures.items()},
        }


def traffic_figures(
    instances: Sequence[InstanceStats], on_ticks: Sequence[int]
) -> dict[str, int | float | None]:
    """Return the sums over instances of bytes, FLOPs and energy; None if one of them is not known.

    ``on_ticks`` is the time for which each was switched on.
    """
    known = [instance.traffic for instance in instances if instance.traffic is not None]
    if len(known) < len(instances):
        return dict.fromkeys((*BYTES, "hbm_bytes", "flops", "link_bytes", "energy_j"))
    figures: dict[str, int | float | None] = {
        name: sum(getattr(moved, name) for moved in known)
        for name in (*BYTES, "hbm_bytes", "flops", "link_bytes")
    }
    return figures | {"energy_j": energy_j(known, on_ticks)}


def ratio(part: int, whole: int) -> float:
    """Divide exactly; a ratio to zero is zero."""
    return part / whole if whole else 0.0


_SCHEMA: dict[str, pl.DataType] = {
    "instance": pl.UInt32(),
    "blocks": pl.UInt64(),
    "block_tokens": pl.UInt32(),
    "finished": pl.UInt64(),
    "steps": pl.UInt64(),
    "prefill_tokens": pl.UInt64(),
    "decode_tokens": pl.UInt64(),
    "preemptions": pl.UInt64(),
    "swapped_out_blocks": pl.UInt64(),
    "swapped_in_blocks": pl.UInt64(),
    "swap_overflows": pl.UInt64(),
    "expired_offers": pl.UInt64(),
    "discarded_tokens": pl.UInt64(),
    "prefix_queries": pl.UInt64(),
    "prefix_hits": pl.UInt64(),
    "evictions": pl.UInt64(),
    "on_s": pl.Float64(),
    "busy_s": pl.Float64(),
    "busy_share": pl.Float64(),
    "mean_batch": pl.Float64(),
    "mean_batch_busy": pl.Float64(),
    "mean_waiting": pl.Float64(),
    "mean_kv_use": pl.Float64(),
    "peak_kv_use": pl.Float64(),
    "peak_running": pl.UInt32(),
    "peak_waiting": pl.UInt32(),
    **dict.fromkeys((*BYTES, "hbm_bytes", "flops", "link_bytes", "energy_j"), pl.Float64()),
}


def _check_all(cls: type, fields: Mapping[str, object], but: tuple[str, ...] = ()) -> None:
    """Refuse decoded JSON that lacks a counter."""
    missing = [name for name in cls.__dataclass_fields__ if name not in fields and name not in but]  # type: ignore[attr-defined]
    if missing:
        raise ResultError(
            f"the counters of a replay must have {', '.join(missing)}, had {said(list(fields))}"
        )
