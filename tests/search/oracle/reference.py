"""The engine against the reference simulator, where that covers a case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from search.case import Case
from search.oracle.failure import Failure
from search.oracle.replayed import Replayed

MOST_STEPS = 3000


def reference(case: Case) -> Any | None:
    """Replay a case through the reference; None where it does not cover it, or finds no end."""
    from paceline.testing.reference.policy_sim import NoEnd, TraceRequest, covers, replay

    if not covers(case.config):
        return None
    rows = [
        TraceRequest(
            row["arrival"],
            row["prompt_tokens"],
            row["output_tokens"],
            row["priority"],
            tuple(row.get("prefix", ())),
            reasoning_tokens=row.get("reasoning_tokens", 0),
            score=row["score"],
            tenant=row["tenant"],
            session=row.get("session"),
        )
        for row in case.requests
    ]
    size = case.prefix_block_tokens or None
    try:
        return replay(case.config, rows, prefix_block_tokens=size, most_steps=MOST_STEPS)
    except NoEnd:
        return None


def broken(replayed: Replayed) -> Iterator[Failure]:
    """Yield where the engine and the reference are not of one mind."""
    from differential.test_policies import decisions, rows_of_engine, rows_of_reference
    from paceline.testing.reference.policy_sim import Stuck

    try:
        expected = reference(replayed.case)
    except Stuck as error:
        yield Failure("reference: stuck", f"{error}, and the engine came to an end")
        return
    if expected is None:
        return

    for index, replica in enumerate(expected.replicas):
        ours = decisions(replayed.outcome, index)
        # The reference leaves out a last step that the end of the time cut off, and so may the engine.
        theirs = replica.steps
        until = replayed.case.config["until"]
        if until is None and ours != theirs:
            at = next(
                (i for i, (one, two) in enumerate(zip(ours, theirs, strict=False)) if one != two),
                min(len(ours), len(theirs)),
            )
            shown = [steps[at] if at < len(steps) else None for steps in (ours, theirs)]
            yield Failure("reference: decisions", f"instance {index}, step {at}: {shown}")
            return
    wanted = rows_of_reference(expected)
    found = rows_of_engine(replayed.outcome, wanted)
    for row, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if one != other:
            yield Failure("reference: requests", f"row {row}: {one} and {other}")
            return
    stats = replayed.stats
    if stats["end_ticks"] != expected.end:
        yield Failure("reference: end", f"{stats['end_ticks']} and {expected.end}")
    for index, (used, replica) in enumerate(zip(stats["instances"], expected.replicas, strict=True)):
        usage = replica.usage
        counters = {
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
            "sent": replica.counts.sent,
            "landed": replica.counts.landed,
            "swap_overflows": replica.scheduler.memory.swap_overflows,
            "prefix_queries": replica.scheduler.memory.queried_tokens,
            "prefix_hits": replica.scheduler.memory.hit_tokens,
            "evictions": replica.scheduler.memory.pool.evictions,
        }
        if replayed.case.config["until"] is None:
            counters |= {
                "prefill_tokens": replica.counts.prefill_tokens,
                "decode_tokens": replica.counts.decode_tokens,
                "swapped_out_blocks": replica.counts.swapped_out_blocks,
                "swapped_in_blocks": replica.counts.swapped_in_blocks,
            }
        differ = {name: (used[name], value) for name, value in counters.items() if used[name] != value}
        if differ:
            yield Failure("reference: usage", f"instance {index}: {differ}")
            return
