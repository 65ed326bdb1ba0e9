"""The counters of an instance as the reference has them, by the engine's names."""

from __future__ import annotations

from typing import Any


def counters_of(replica: Any) -> dict[str, int]:
    """Return what the engine's statistics of one instance must be."""
    usage, counts, memory = replica.usage, replica.counts, replica.scheduler.memory
    return {
        **{name: getattr(counts, name) for name in counts.__dataclass_fields__},
        # Copied as requests are preempted, and charged to the next step, if there is one.
        "swapped_out_blocks": counts.swapped_out_blocks + replica.scheduler.state.copied_out,
        "steps": usage.steps,
        "busy_ticks": usage.busy,
        "preemptions": usage.preemptions,
        "finished": usage.finished,
        "running_ticks": usage.running_time,
        "waiting_ticks": usage.waiting_time,
        "kv_token_ticks": usage.kv_token_time,
        "peak_running": usage.peak_running,
        "peak_waiting": usage.peak_waiting,
        "peak_blocks": usage.peak_blocks,
        "swap_overflows": memory.swap_overflows,
    }
