"""The totals of a replay: counts, rates and means."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paceline._arguments import typed_fields
from paceline._clock import TICKS_PER_SECOND
from paceline.errors import ResultError
from paceline.result.columns import RequestColumns
from paceline.result.outcome import REASONS, STATUSES
from paceline.result.provenance import Provenance
from paceline.result.roles import seconds_by_role
from paceline.result.stats import InstanceStats, ReplayStats, ratio, traffic_figures
from paceline.result.turns import early_turns

__all__ = ["Tally", "Totals", "count_statuses", "makespan_s", "rate", "total", "total_of"]

_MEMORY: Final = (
    "swapped_out_blocks",
    "swapped_in_blocks",
    "swap_overflows",
    "prefix_queries",
    "prefix_hits",
    "evictions",
)
"""Counters of the KV cache that are added up over the instances."""

_UNFINISHED: Final = ("running", "waiting", "not_arrived", "held")
"""Statuses of requests that a replay left unfinished when it stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(ResultError)
class Totals:
    """Counts, rates and means over a whole replay.

    Attributes
    ----------
    requests
        Requests in the trace. The next eight add up to it.
    finished, running, waiting, not_arrived, rejected, held, gave_up, cancelled
        Requests by status when the replay stopped; `running`, `waiting`,
        `not_arrived` and `held` are zero unless `until` cut it short. `held` and
        `gave_up` are requests that a router held, and those that left it;
        `cancelled` those that their clients cancelled, the last time that they
        were sent.
    rejected_by_reason
        Rejected requests by reason.
    cancelled_by_reason
        Cancelled requests by reason.
    sent_again
        How often clients sent requests again.
    wasted_tokens
        Tokens that requests had generated when they were cancelled, each time
        that they were sent; those of the last time are in `output_tokens`, too.
    dropped_rows
        Rows of the trace's file that were left out on reading, by reason.
    simulated_s
        The clock when the replay stopped, in seconds from the trace's start.
    makespan_s
        The window of the rates below: from the trace's start to the last
        completion, the drain after the last arrival included, as the duration
        of vLLM's `bench serve`; to `simulated_s` if requests are unfinished.
    requests_per_s
        Finished requests over the window.
    output_tokens, output_tokens_per_s
        Tokens emitted, those of unfinished requests included, and their rate.
    total_tokens_per_s
        Rate of tokens served: the tokens emitted, and the prompts of all requests
        that have their first token. Recomputed tokens do not count.
    preemptions
        Preemptions of requests.
    swapped_out_blocks, swapped_in_blocks
        KV blocks copied to the CPU's memory and back; 0 if preemption recomputes.
    swap_overflows
        Preemptions by recompute because the CPU's memory had no room.
    prefix_queries, prefix_hits
        Tokens looked up in the prefix cache, and those found, counted at each
        admission, so again after a preemption.
    prefix_hit_rate
        Hits over queries; 0 without a prefix cache.
    evictions
        Cached blocks that were evicted.
    uses_oracle
        Whether the policy read what no real scheduler knows.
    borrowed_fits
        Instances with costs that were fitted to another model, GPU or split: their times are a guess.
    steps
        Steps run by all instances.
    extrapolated
        Steps with a cost beyond what was measured, by axis; empty if there were none.
    mean_batch
        Running requests of an instance, averaged over time and instances.
    mean_batch_busy
        The same over the time in which the instance was in a step.
    mean_kv_use
        Share of KV tokens held, averaged over time and the cluster's capacity.
    peak_kv_use
        The largest share of KV blocks in use on an instance.
    instance_s
        Seconds that instances spent in each pool, in all; empty without pools.
    on_s
        Seconds that instances were switched on, in all: every instance from the trace's start to
        `simulated_s`, less its times in pools of `Pools(switched_off=...)`. Times to start, and to
        finish requests before switching off, are in it. 3,600 of them are an instance-hour.
    weight_bytes, expert_bytes
        Weights that the steps read: routed experts, those of a layer once for all
        tokens of its batch, and all others. These and the following are of all
        layers and GPUs, over the finished steps, and None if an instance has no
        model to count them from.
    kv_read_bytes, kv_written_bytes, activation_bytes, swap_bytes
        Keys and values, activations, and KV blocks copied to the CPU's memory and back.
    hbm_bytes
        The sum of those six: all bytes from and to the GPUs' memory.
    flops
        Floating-point operations.
    link_bytes
        Bytes that the GPUs of an instance sent to each other: all-reduces and other
        exchanges of a step. KV that migrates between instances is in
        `kv_transfer_bytes`.
    energy_j
        Joules of all GPUs from the trace's start to `simulated_s`, idle times
        included and times in which instances are switched off left out; None if a
        GPU has no energy.
    energy_per_token_j
        The same over prompt and output tokens served, as in the layered-prefill
        paper (section 5.1); None also if no token was served.
    energy_per_request_j, expert_bytes_per_request
        The same, and the experts' bytes, over the requests that finished.
    kv_transfers, kv_transfer_bytes
        Transfers of KV between instances, each stage of a live migration among
        them, and their bytes; `Result.links` has them by medium. 0 bytes if the
        size of a token's KV is not known.
    early_turns
        Turns of sessions that arrived before the answer to the turn before them had
        ended; None if the trace has no sessions.
    """

    requests: int
    finished: int
    running: int
    waiting: int
    not_arrived: int
    rejected: int
    held: int
    gave_up: int
    cancelled: int
    rejected_by_reason: dict[str, int]
    cancelled_by_reason: dict[str, int]
    sent_again: int
    wasted_tokens: int
    dropped_rows: dict[str, int]
    simulated_s: float
    makespan_s: float
    requests_per_s: float
    output_tokens: int
    output_tokens_per_s: float
    total_tokens_per_s: float
    preemptions: int
    swapped_out_blocks: int
    swapped_in_blocks: int
    swap_overflows: int
    prefix_queries: int
    prefix_hits: int
    prefix_hit_rate: float
    evictions: int
    uses_oracle: bool
    borrowed_fits: list[str]
    steps: int
    extrapolated: dict[str, int]
    mean_batch: float
    mean_batch_busy: float
    mean_kv_use: float
    peak_kv_use: float
    instance_s: dict[str, float]
    on_s: float
    weight_bytes: int | None = None
    expert_bytes: int | None = None
    kv_read_bytes: int | None = None
    kv_written_bytes: int | None = None
    activation_bytes: int | None = None
    swap_bytes: int | None = None
    hbm_bytes: int | None = None
    flops: int | None = None
    link_bytes: int | None = None
    energy_j: float | None = None
    energy_per_token_j: float | None = None
    energy_per_request_j: float | None = None
    expert_bytes_per_request: float | None = None
    kv_transfers: int = 0
    kv_transfer_bytes: int = 0
    early_turns: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        given = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name, value in given.items():
            if isinstance(value, dict | list):
                given[name] = copy(value)
        return given


def count_statuses(columns: RequestColumns) -> dict[str, int]:
    """Count requests by status, every status named."""
    codes = columns.codes("status")
    counts = dict.fromkeys(STATUSES, 0)
    left = codes.size
    for code, name in enumerate(STATUSES):
        if left:  # most replays end with all requests finished
            counts[name] = int(np.count_nonzero(codes == code))
            left -= counts[name]
    return counts


def makespan_s(columns: RequestColumns, stats: ReplayStats) -> float:
    """Return the window of rates, in seconds: see `Totals.makespan_s`."""
    counts = count_statuses(columns)
    if any(counts[status] for status in _UNFINISHED):
        return stats.end_ticks / TICKS_PER_SECOND
    return columns.latest("finish") or 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What totals count of requests; those of parts of a replay add up.

    Attributes
    ----------
    counts
        Requests by status.
    reasons
        Requests by status and reason.
    output_tokens, prompt_tokens
        Tokens emitted, and the prompts of requests that have their first token.
    sent_again, wasted_tokens, preemptions
        As of `Totals`.
    latest
        The last completion in seconds; 0 without one.
    early_turns
        As of `Totals`; those of parts cannot be added.
    """

    counts: dict[str, int]
    reasons: dict[str, dict[str, int]]
    output_tokens: int
    prompt_tokens: int
    sent_again: int
    wasted_tokens: int
    preemptions: int
    latest: float
    early_turns: int | None

    @classmethod
    def of(cls, columns: RequestColumns) -> Tally:
        """Count requests."""
        counts = count_statuses(columns)
        prompts, prefilled = columns.counts("prompt_tokens"), columns.happened("first_token")
        return cls(
            counts=counts,
            reasons={
                status: _count_reasons(columns, status) if counts[status] else {}
                for status in ("rejected", "cancelled")
            },
            output_tokens=_sum(columns.counts("generated_tokens")),
            prompt_tokens=_sum(prompts if prefilled.all() else prompts[prefilled]),
            sent_again=_sum(columns.counts("sent_again")),
            wasted_tokens=_wasted(columns),
            preemptions=_sum(columns.counts("preemptions")),
            latest=columns.latest("finish") or 0.0,
            early_turns=early_turns(columns),
        )

    def __add__(self, other: Tally) -> Tally:
        if (self.early_turns, other.early_turns) != (None, None):
            raise ValueError("a turn may be early by a turn of another part")
        return Tally(
            counts={status: count + other.counts[status] for status, count in self.counts.items()},
            reasons={status: _added(of, other.reasons[status]) for status, of in self.reasons.items()},
            output_tokens=self.output_tokens + other.output_tokens,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            sent_again=self.sent_again + other.sent_again,
            wasted_tokens=self.wasted_tokens + other.wasted_tokens,
            preemptions=self.preemptions + other.preemptions,
            latest=max(self.latest, other.latest),
            early_turns=None,
        )


def _added(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """Add counts by reason, in the order of the codes."""
    both = {reason: one.get(reason, 0) + other.get(reason, 0) for reason in REASONS}
    return {reason: count for reason, count in both.items() if count}


def total(columns: RequestColumns, stats: ReplayStats, provenance: Provenance) -> Totals:
    """Return the totals of a replay."""
    return total_of(Tally.of(columns), stats, provenance)


def total_of(tally: Tally, stats: ReplayStats, provenance: Provenance) -> Totals:
    """Return the totals of a replay, of what was counted of its requests."""
    counts, output_tokens = tally.counts, tally.output_tokens
    unfinished = any(counts[status] for status in _UNFINISHED)
    window = stats.end_ticks / TICKS_PER_SECOND if unfinished else tally.latest
    finished, served = counts["finished"], tally.prompt_tokens + output_tokens
    of, end = stats.instances, stats.end_ticks
    running = sum(instance.running_ticks for instance in of)
    capacity = sum(instance.blocks * instance.block_tokens for instance in of)
    on_ticks = stats.on_ticks()
    moved: dict[str, Any] = traffic_figures(of, on_ticks)
    energy = moved["energy_j"]
    counts_of_memory = {name: _over(of, name) for name in _MEMORY}
    return Totals(
        requests=sum(counts.values()),
        **counts,
        rejected_by_reason=tally.reasons["rejected"],
        cancelled_by_reason=tally.reasons["cancelled"],
        sent_again=tally.sent_again,
        wasted_tokens=tally.wasted_tokens,
        dropped_rows=dict(provenance.dropped_rows),
        simulated_s=end / TICKS_PER_SECOND,
        makespan_s=window,
        requests_per_s=rate(finished, window),
        output_tokens=output_tokens,
        output_tokens_per_s=rate(output_tokens, window),
        total_tokens_per_s=rate(served, window),
        preemptions=tally.preemptions,
        **counts_of_memory,
        prefix_hit_rate=ratio(counts_of_memory["prefix_hits"], counts_of_memory["prefix_queries"]),
        uses_oracle=provenance.uses_oracle,
        borrowed_fits=list(provenance.borrowed_fits),
        steps=stats.steps,
        extrapolated=stats.extrapolated,
        mean_batch=ratio(running, end * len(of)),
        mean_batch_busy=ratio(running, sum(instance.busy_ticks for instance in of)),
        mean_kv_use=ratio(sum(instance.kv_token_ticks for instance in of), end * capacity),
        peak_kv_use=max((ratio(instance.peak_blocks, instance.blocks) for instance in of), default=0.0),
        instance_s=seconds_by_role(stats),
        on_s=sum(on_ticks) / TICKS_PER_SECOND,
        **moved,
        energy_per_token_j=_each(energy, served),
        energy_per_request_j=_each(energy, finished),
        expert_bytes_per_request=_each(moved["expert_bytes"], finished),
        kv_transfers=stats.network.transfers,
        kv_transfer_bytes=stats.network.bytes,
        early_turns=tally.early_turns,
    )


def rate(count: int, window_s: float) -> float:
    """Return events per second; zero in no time."""
    return count / window_s if window_s else 0.0


def _each(total: float | None, count: int) -> float | None:
    return total / count if total is not None and count else None


def _over(instances: Iterable[InstanceStats], counter: str) -> int:
    return sum(getattr(instance, counter) for instance in instances)


def _sum(counts: NDArray[np.uint32]) -> int:
    # Ten million requests' tokens overflow 32 bits.
    return int(counts.sum(dtype=np.uint64))


def _wasted(columns: RequestColumns) -> int:
    """Return the tokens of requests that were cancelled, each time that they were sent."""
    cancelled = columns.codes("status") == STATUSES.index("cancelled")
    return _sum(columns.counts("wasted_tokens")) + _sum(columns.counts("generated_tokens")[cancelled])


def _count_reasons(columns: RequestColumns, status: str) -> dict[str, int]:
    rows = columns.codes("status") == STATUSES.index(status)
    codes = np.bincount(columns.codes("reason")[rows], minlength=len(REASONS) + 1)[1:]
    counts = dict(zip(REASONS, codes.tolist(), strict=True))
    return {reason: count for reason, count in counts.items() if count}
