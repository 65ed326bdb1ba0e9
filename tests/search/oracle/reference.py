"""The engine against the reference simulator, where that covers a case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from search.case import Case
from search.oracle.failure import Failure
from search.oracle.replayed import Replayed

MOST_STEPS = 3000
PLAIN_ADMIT = {"kind": "admit", "unless_swapped": False, "count_decodes": True, "gather": None}
PLAIN = {
    "long_prefill_token_threshold": 0,
    "exclusive_prefill": False,
    "watermark_blocks": 0,
    "spare_block": False,
    "decodes_first": False,
    "refund": True,
    "stop_at_own_preemption": False,
    "requeue_late": False,
    "prefix_cache": None,
    "schedule_ahead": False,
}


def covers(case: Case) -> bool:
    """Whether the reference simulator can replay a case."""
    if case.config["lockstep"] is not None or not case.config["roles"]:
        return False
    if "prefix_tokens" in str(case.config["routing"]):
        return False
    if not all("reasoning_tokens" in row for row in case.requests):
        return False
    return all(_covers(one) for one in case.config["instances"])


def _covers(instance: dict[str, Any]) -> bool:
    scheduler = instance["scheduler"]
    kinds = [stage["kind"] for stage in scheduler["stages"]]
    if kinds != ["running", "admit"] or scheduler["order"]["kind"] != "ranked":
        return False
    if instance["cost"]["kind"] != "affine" or instance["traffic"] is not None:
        return False
    admit = scheduler["stages"][1]
    return PLAIN.items() <= scheduler.items() and PLAIN_ADMIT.items() <= admit.items()


def reference(case: Case) -> Any | None:
    """Replay a case through the reference; None where it does not cover it, or finds no end."""
    from paceline.testing.reference.wire import WireRequest, replay_wire

    if not covers(case):
        return None
    rows = [
        WireRequest(
            row["arrival"],
            row["prompt_tokens"],
            row["output_tokens"],
            row["priority"],
            reasoning_tokens=row["reasoning_tokens"],
            score=row["score"],
            tenant=row["tenant"],
        )
        for row in case.requests
    ]
    try:
        return replay_wire(case.config, rows, most_steps=MOST_STEPS)
    except RuntimeError:
        return None


def broken(replayed: Replayed) -> Iterator[Failure]:
    """Yield where the engine and the reference are not of one mind."""
    expected = reference(replayed.case)
    if expected is None:
        return
    from differential.test_policies import decisions, rows_of_engine, rows_of_reference

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
            "swap_overflows": replica.scheduler.swap_overflows,
        }
        differ = {name: (used[name], value) for name, value in counters.items() if used[name] != value}
        if differ:
            yield Failure("reference: usage", f"instance {index}: {differ}")
            return
