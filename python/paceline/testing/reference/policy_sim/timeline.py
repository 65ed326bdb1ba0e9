"""The instances over time: what each was in and had done at equally spaced moments, read one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from paceline.testing.reference.policy_sim.hosted_memory import HostedMemory
from paceline.testing.reference.policy_sim.instance_fields import instance_field
from paceline.testing.reference.policy_sim.moves import Traffic
from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.request import Request

__all__ = ["SUMS", "Timeline"]

Row = dict[str, int]

SUMS = (
    "steps",
    "busy_ticks",
    "prefill_tokens",
    "decode_tokens",
    "finished",
    "dropped",
    "preemptions",
    "sent",
    "received",
    "swapped_out_blocks",
    "swapped_in_blocks",
    "prefix_queries",
    "prefix_hits",
    "evictions",
    "running_ticks",
    "queued_ticks",
    "kv_token_ticks",
)
"""Columns that are sums over the interval; the others are states at its end."""


@dataclass(slots=True)
class Timeline:
    """Readings of all replicas at each multiple of an interval.

    Attributes
    ----------
    every : int
        The interval.
    most : int
        The most readings. If there would be more, the interval is doubled, and every other one is dropped.
    readings : list of (int, list of dict)
        The moments in order, and at each what every replica is in and has done since the start.
    """

    every: int
    most: int
    readings: list[tuple[int, list[Row]]] = field(default_factory=list)

    def due(self, moment: int) -> Iterator[int]:
        """Yield the moments before another at which a reading is due."""
        while (now := self.every * (len(self.readings) + 1)) < moment:
            yield now

    def read(self, now: int, replicas: list[Replica], traffic: Traffic) -> None:
        """Read all replicas."""
        self.readings.append((now, [_row(one, traffic, now) for one in replicas]))
        self._double(now)

    def _double(self, now: int) -> None:
        """Double the interval until the readings up to a moment are few enough."""
        while now // self.every > max(self.most - self.most % 2, 2):
            self.every *= 2
            self.readings = [(at, rows) for at, rows in self.readings if at % self.every == 0]

    def rows(self, end: int, replicas: list[Replica], traffic: Traffic) -> tuple[int, list[int], list[Row]]:
        """Return the interval, the moments, and the rows of each, once the replay has ended."""
        self._double(end)
        kept = list(self.readings)
        # A moment of the grid may be the end.
        if end > 0 and (not kept or kept[-1][0] < end):
            kept.append((end, [_row(one, traffic, end) for one in replicas]))
        before = [dict.fromkeys(SUMS, 0) for _ in replicas]
        out: list[Row] = []
        for _, rows in kept:
            for row, last in zip(rows, before, strict=True):
                out.append({**row, **{name: row[name] - last[name] for name in SUMS}})
            before = rows
        return self.every, [now for now, _ in kept], out


def _distinct(blocks: Iterable[Iterable[int]]) -> int:
    """Count the blocks of several requests; one that they share counts once."""
    return len({block for several in blocks for block in several})


def _loading(at: Replica) -> list[Request]:
    """Return the requests that wait for a load, as far as steps have seen."""
    tier = at.scheduler.state.tier
    return [] if tier is None else [one for one in tier.loading if not tier.use(one).seen]


def _tier_chunks(at: Replica) -> int:
    """Count the chunks in the host's memory."""
    memory, tier = at.scheduler.memory, at.scheduler.state.tier
    if isinstance(memory, HostedMemory):
        return memory.tree.used
    return 0 if tier is None else tier.chunks.used


def _row(at: Replica, traffic: Traffic, now: int) -> Row:
    memory, state, step = at.scheduler.memory, at.scheduler.state, at.oldest_step
    swapped = sum(one.place == "queued" and one.memory == "cpu" for one in at.requests)
    sending = [move.blocks for move in traffic.moves if move.source == at.index]
    sending += [handover.blocks for handover in at.outgoing]

    def of_instance(name: str) -> Any:  # noqa: ANN401 - fields are numbers
        return instance_field(name, at, now, None, None, None)

    return {
        "running": len(at.scheduler.running),
        "waiting": len(at.scheduler.queue) - swapped,
        "swapped": swapped,
        "incoming": len(state.incoming.on_the_way),
        "kv_used_blocks": memory.pool.held,
        "kv_cached_blocks": memory.pool.known_free,
        "kv_sending_blocks": _distinct(sending),
        "kv_receiving_blocks": _distinct(one.blocks for one in [*state.incoming.receiving, *_loading(at)]),
        "kv_tokens": of_instance("gpu_kv_tokens"),
        "kv_host_tokens": of_instance("cpu_kv_tokens"),
        "kv_arriving_tokens": sum(one.computed for one in [*state.incoming.receiving, *_loading(at)]),
        "tier_chunks": _tier_chunks(at),
        "store_chunks": 0 if (tier := state.tier or state.copies) is None else tier.store_chunks,
        "batch_requests": len(step.tokens) if step else 0,
        "batch_tokens": sum(step.tokens.values()) if step else 0,
        "step_ticks": (at.ends or step.start) - step.start if step else 0,
        "role": at.role,
        "steps": at.usage.steps,
        "busy_ticks": at.usage.busy,
        "prefill_tokens": at.counts.prefill_tokens,
        "decode_tokens": at.counts.decode_tokens,
        "finished": at.usage.finished,
        "dropped": at.dropped,
        "preemptions": at.usage.preemptions,
        "sent": at.counts.sent,
        "received": at.counts.landed,
        "swapped_out_blocks": at.counts.swapped_out_blocks + state.copied_out,
        "swapped_in_blocks": at.counts.swapped_in_blocks + state.copied_in,
        "prefix_queries": memory.queried_tokens,
        "prefix_hits": memory.hit_tokens,
        "evictions": memory.pool.evictions,
        "running_ticks": at.usage.running_time,
        "queued_ticks": at.usage.waiting_time,
        "kv_token_ticks": at.usage.kv_token_time,
    }
