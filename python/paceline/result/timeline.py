"""A replay over time: rows at equally spaced moments, of each instance and of the router."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline._clock import TICKS_PER_SECOND, moment
from paceline.policy.pools import Pools
from paceline.result.outcome import Outcome
from paceline.result.roles import spans_in
from paceline.result.router_timeline import router_timeline, tenant_timeline
from paceline.result.stats import ReplayStats

__all__ = ["INSTANCE_SCHEMA", "Timelines", "instance_timeline", "timelines_of"]

_STATES: Final = {
    "running": pl.UInt32(),
    "waiting": pl.UInt32(),
    "swapped": pl.UInt32(),
    "incoming": pl.UInt32(),
    "kv_total_blocks": pl.UInt32(),
    "kv_used_blocks": pl.UInt32(),
    "kv_cached_blocks": pl.UInt32(),
    "kv_sending_blocks": pl.UInt32(),
    "kv_receiving_blocks": pl.UInt32(),
    "kv_tokens": pl.UInt64(),
    "kv_host_tokens": pl.UInt64(),
    "kv_arriving_tokens": pl.UInt64(),
    "tier_chunks": pl.UInt32(),
    "store_chunks": pl.UInt64(),
    "batch_requests": pl.UInt32(),
    "batch_tokens": pl.UInt32(),
    "step_s": pl.Float64(),
}
_SUMS: Final = {
    "on_s": pl.Float64(),
    "steps": pl.UInt64(),
    "busy_s": pl.Float64(),
    "prefill_tokens": pl.UInt64(),
    "decode_tokens": pl.UInt64(),
    "finished": pl.UInt32(),
    "dropped": pl.UInt32(),
    "preemptions": pl.UInt32(),
    "migrated_out": pl.UInt32(),
    "migrated_in": pl.UInt32(),
    "swapped_out_blocks": pl.UInt64(),
    "swapped_in_blocks": pl.UInt64(),
    "prefix_queries": pl.UInt64(),
    "prefix_hits": pl.UInt64(),
    "evictions": pl.UInt64(),
}
_MEANS: Final = {
    "mean_running": "running_ticks",
    "mean_waiting": "queued_ticks",
    "mean_kv_tokens": "kv_token_ticks",
}
_WORK: Final = ("hbm_bytes", "flops", "link_bytes")
_ENGINE: Final = {"migrated_out": "sent", "migrated_in": "received"}
"""The engine's names where they are others."""

INSTANCE_SCHEMA: Final[dict[str, pl.DataType]] = {
    "time_s": pl.Float64(),
    "interval_s": pl.Float64(),
    "instance": pl.UInt32(),
    "role": pl.String(),
    **_STATES,
    **_SUMS,
    **dict.fromkeys((*_MEANS, *_WORK, "energy_j"), pl.Float64()),
}
"""Names and types of the columns of `Result.timeline`, in order."""


@dataclass(frozen=True, slots=True)
class Timelines:
    """The frames of a sampled replay, each computed or read when it is called for.

    Attributes
    ----------
    instances, router
        A row per sample and instance, and a row per sample.
    tenants
        A row per sample and tenant; None if that was not asked for.
    """

    instances: Callable[[], pl.DataFrame]
    router: Callable[[], pl.DataFrame]
    tenants: Callable[[], pl.DataFrame] | None = None


def instance_timeline(
    samples: Mapping[str, Any], stats: ReplayStats, pools: tuple[str, ...] = ()
) -> pl.DataFrame:
    """Return the engine's samples in seconds, with the names of pools.

    Parameters
    ----------
    samples
        The engine's columns: a value per sample and instance, by time and then by instance.
    stats
        The counters of the whole replay.
    pools
        The names of pools by code; empty without pools.
    """
    instances, times = len(stats.instances), samples["times"]
    ticks = np.diff(times, prepend=np.uint64(0))
    moments, spans = (np.repeat(each, instances) for each in (times, ticks))
    span_s, off = spans / TICKS_PER_SECOND, _off_ticks(times, stats)
    columns: dict[str, Any] = {
        "time_s": moments / TICKS_PER_SECOND,
        "interval_s": span_s,
        "instance": np.tile(np.arange(instances, dtype=np.uint32), len(times)),
        "role": _roles(samples["role"], pools),
        "kv_total_blocks": np.tile([one.blocks for one in stats.instances], len(times)),
        "step_s": samples["step_ticks"] / TICKS_PER_SECOND,
        "on_s": (spans.astype(np.int64) - off) / TICKS_PER_SECOND,
        "busy_s": samples["busy_ticks"] / TICKS_PER_SECOND,
    }
    for name in (*_STATES, *_SUMS):
        if name not in columns:
            columns[name] = samples[_ENGINE.get(name, name)]
    for name, integral in _MEANS.items():
        columns[name] = samples[integral] / spans
    known = [one.traffic for one in stats.instances]
    for name in _WORK:
        columns[name] = _where_known([one is not None for one in known], samples[name])
    powered = [one is not None and one.idle_uw is not None for one in known]
    energy = samples["energy_aj"] / 1e18
    columns["energy_j"] = _where_known(powered, np.maximum(energy - _saved_j(off, stats), 0.0))
    frame = pl.DataFrame({name: columns[name] for name in INSTANCE_SCHEMA})
    return frame.cast(INSTANCE_SCHEMA)  # type: ignore[arg-type] # polars names fewer types than it takes


def _off_ticks(times: np.ndarray[Any, Any], stats: ReplayStats) -> np.ndarray[Any, Any]:
    """Return the ticks of each interval in which an instance is switched off, by time and instance."""
    found = np.zeros((len(times), len(stats.instances)), dtype=np.int64)
    ends = times.astype(np.int64)
    begins = np.concatenate(([0], ends[:-1]))
    for instance, _, start, end in spans_in(stats, stats.switched_off):
        found[:, instance] += np.clip(np.minimum(ends, end) - np.maximum(begins, start), 0, None)
    return found.reshape(-1)


def _saved_j(off_ticks: np.ndarray[Any, Any], stats: ReplayStats) -> np.ndarray[Any, Any]:
    """Return the idle joules that instances do not draw in the ticks in which they are switched off."""
    known = [one.traffic for one in stats.instances]
    idle_uw = [0.0 if one is None or one.idle_uw is None else float(one.idle_uw) for one in known]
    joules = np.tile(np.asarray(idle_uw), len(off_ticks) // max(1, len(idle_uw))) / 1e18
    saved: np.ndarray[Any, Any] = off_ticks * joules
    return saved


def _roles(codes: np.ndarray[Any, Any], pools: tuple[str, ...]) -> pl.Series:
    if not pools:
        return pl.repeat(None, len(codes), dtype=pl.String(), eager=True)
    return pl.Series(pools).gather(codes)


def _where_known(known: list[bool], values: np.ndarray[Any, Any]) -> pl.Series:
    """Return the values of the instances of which they are known, null elsewhere."""
    holds = np.tile(known, len(values) // len(known))
    return pl.select(pl.when(pl.Series(holds)).then(pl.Series(values))).to_series()


def timelines_of(
    trace: pl.DataFrame,
    outcome: Outcome,
    stats: Callable[[], ReplayStats],
    policy: object,
    settings: Mapping[str, Any],
    frontend_s: float,
) -> Timelines | None:
    """Return the timelines of an outcome; None if the replay was not sampled."""
    samples = outcome.timeline
    if samples is None:
        return None
    pools = getattr(policy, "pools", None)
    names = pools.names if isinstance(pools, Pools) else ()

    def arrivals() -> NDArray[np.uint64]:
        frontend = moment("frontend_s", frontend_s)
        # Clients that wait for answers write when they sent a request.
        ticks: NDArray[np.uint64] = outcome.columns["arrival"]
        if not ticks.size:
            seconds = trace.get_column("arrival").to_numpy()
            ticks = np.rint(seconds * TICKS_PER_SECOND).astype(np.uint64)
        predicted = outcome.columns["prediction"]
        return ticks + np.uint64(frontend) + (predicted if predicted.size else np.uint64(0))

    return Timelines(
        instances=lambda: instance_timeline(samples, stats(), names),
        router=lambda: router_timeline(samples["times"], arrivals(), outcome),
        tenants=(lambda: tenant_timeline(samples["times"], arrivals(), outcome, trace.get_column("tenant")))
        if settings.get("sample_tenants")
        else None,
    )
