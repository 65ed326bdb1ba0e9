"""The engine against the reference simulator, for the cases that the simulator covers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from differential.counters import cached_by, carried, carried_by, counters_of, store_of, stores_of, tier_of
from differential.records import record
from differential.test_policies import decisions, rows_of_engine, rows_of_reference
from differential.timelines import timeline_of_engine
from paceline.testing.reference import policy_sim
from search.case import Case
from search.oracle import progress, quality
from search.oracle.failure import Failure
from search.oracle.replayed import Replayed

MOST_STEPS = 1500

MOST_EVENTS = 100_000
"""More events, as of a monitor that acts often, would take the reference longer than a case may."""


def covers(case: Case) -> bool:
    """Whether the reference simulator can replay a case, apart from its costs."""
    return policy_sim.covers(affine(case).config)


def comparable(replayed: Replayed) -> Replayed:
    """Return a replay that the reference can follow: with affine costs instead of others."""
    case = affine(replayed.case)
    if case is replayed.case:
        return replayed
    again, stop = progress.replayed(case, leap=replayed.leap, record=replayed.record)
    if again is None:
        assert stop is not None
        case = progress.before(case, stop)
        again = Replayed(case, leap=replayed.leap, record=replayed.record)
    return again


def affine(case: Case) -> Case:
    """Return a case with affine costs instead of others; the case itself if it has no others."""
    costs = [one["cost"] for one in case.config["instances"]]
    straight = [_straight(cost) for cost in costs]
    if straight == costs:
        return case
    instances = [{**one, "cost": cost} for one, cost in zip(case.config["instances"], straight, strict=True)]
    return replace(case, config={**case.config, "instances": instances})


def _straight(cost: dict[str, Any]) -> dict[str, Any]:
    """Return an affine cost in place of another; graphs and a floor stay."""
    if cost["kind"] in ("floor", "graphs"):
        return {**cost, "cost": _straight(cost["cost"])}
    if cost["kind"] == "affine":
        return cost
    # Other costs have a time for each step too, in the unit of the case.
    return {"kind": "affine", "step": cost["step"], "token": cost["step"] // 10, "kv_token": 0}


def replay(case: Case) -> policy_sim.Outcome | None:
    """Replay a case through the reference; return None if that does not end."""
    rows = [
        policy_sim.TraceRequest(
            row["arrival"],
            row["prompt_tokens"],
            row["output_tokens"],
            row["priority"],
            tuple(row.get("prefix", ())),
            reasoning_tokens=row.get("reasoning_tokens", 0),
            score=row["score"],
            tenant=row["tenant"],
            session=row.get("session"),
            model=row.get("model"),
            adapter=row.get("adapter"),
            think=row.get("think"),
            parents=tuple(row.get("parents", ())),
            delay=row.get("delay", 0),
            not_before=row.get("not_before", 0),
            numbers=tuple(row.get("numbers", ())),
            cancel_after=row.get("cancel_after"),
            cancel_tokens=row.get("cancel_tokens"),
        )
        for row in case.requests
    ]
    config = {**case.config, "roles": case.config["roles"] or [0] * len(case.config["instances"])}
    size = case.prefix_block_tokens or None
    try:
        return policy_sim.replay(config, rows, prefix_block_tokens=size, most_steps=2 * MOST_STEPS)
    except RuntimeError:
        return None


def is_long(replayed: Replayed) -> bool:
    """Whether the reference would take too long for a replay."""
    return replayed.stats["steps"] > MOST_STEPS or replayed.stats["events"] > MOST_EVENTS


def broken(replayed: Replayed) -> Iterator[Failure]:
    """Yield the differences between the engine and the reference."""
    expected = replay(replayed.case)
    if expected is None:
        yield Failure("reference: finds no end", f"the engine's took {replayed.stats['steps']} steps")
        return
    yield from _decisions(replayed, expected)
    yield from _requests(replayed, expected)
    yield from quality.broken(replayed, expected)
    yield from _usage(replayed, expected)
    yield from _timeline(replayed, expected)


def _timeline(replayed: Replayed, expected: policy_sim.Outcome) -> Iterator[Failure]:
    if expected.timeline is None:
        return
    every, times, rows = timeline_of_engine(replayed.outcome)
    if (every, times) != expected.timeline[:2]:
        yield Failure("reference: samples", f"{(every, times)} and {expected.timeline[:2]}")
        return
    for at, (row, wanted) in enumerate(zip(rows, expected.timeline[2], strict=True)):
        if row != wanted:
            differ = {name: (row[name], value) for name, value in wanted.items() if row[name] != value}
            yield Failure("reference: timeline", f"row {at}: {differ}")
            return


def _decisions(replayed: Replayed, expected: policy_sim.Outcome) -> Iterator[Failure]:
    # A step that the end of time cuts off may be in either log, in both, or in none.
    until = replayed.case.config["until"]
    for index, replica in enumerate(expected.replicas):
        ours, theirs = decisions(replayed.outcome, index), replica.steps
        if until is not None:
            shortest = min(len(ours), len(theirs))
            if abs(len(ours) - len(theirs)) <= 1:
                ours, theirs = ours[:shortest], theirs[:shortest]
        if ours != theirs:
            at = next(
                (i for i, (one, two) in enumerate(zip(ours, theirs, strict=False)) if one != two),
                min(len(ours), len(theirs)),
            )
            shown = [steps[at] if at < len(steps) else None for steps in (ours, theirs)]
            yield Failure("reference: decisions", f"instance {index}, step {at}: {shown}")
            return
        if replica.pipeline is None:
            yield from _records(replayed, expected, index)


def _records(replayed: Replayed, expected: policy_sim.Outcome, index: int) -> Iterator[Failure]:
    """Compare what the records of steps have beside the decisions."""
    instance, replica = replayed.case.config["instances"][index], expected.replicas[index]
    layered = any(stage["kind"] == "layered" for stage in instance["scheduler"]["stages"])
    for ours, step, row in zip(replayed.decisions[index], replica.formed_steps, replica.steps, strict=False):
        theirs = record(step, row)
        left_out = {"ticks", "drafted"} if step.ended is None else set()
        if not instance.get("speculation"):
            left_out |= {"drafted"}
        if layered:
            # The reference has the groups behind the first one of a prompt continue it.
            ours, theirs = _without_beginnings(ours), _without_beginnings(theirs)
        differ = {name: (ours.get(name), value) for name, value in theirs.items() if ours.get(name) != value}
        if differ.keys() - left_out:
            yield Failure("reference: records", f"instance {index}: {differ}")
            return


def _without_beginnings(step: dict[str, Any]) -> dict[str, Any]:
    """Return a step in which prompts that begin are as those that continue."""
    scheduled = [[*entry, "chunk" if part == "admitted" else part] for *entry, part in step["scheduled"]]
    return {**step, "scheduled": scheduled}


def _requests(replayed: Replayed, expected: policy_sim.Outcome) -> Iterator[Failure]:
    wanted = rows_of_reference(expected)
    found = rows_of_engine(replayed.outcome, wanted)
    for row, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if one != other:
            names = [name for name in one.__slots__ if getattr(one, name) != getattr(other, name)]
            shown = ", ".join(f"{name} {getattr(one, name)!r} and {getattr(other, name)!r}" for name in names)
            yield Failure("reference: requests", f"row {row}: {shown}")
            return
    if any(one["scheduler"]["prefix_cache"] for one in replayed.case.config["instances"]):
        hits = [request.hit_tokens for request in expected.requests]
        if hits != replayed.counts("cached_tokens"):
            yield Failure("reference: hits", f"{replayed.column('cached_tokens')} and {hits}")
    if any(one.get("tier") for one in replayed.case.config["instances"]):
        for name in ("loaded_tokens", "load_wait"):
            waits = [getattr(request, name) for request in expected.requests]
            if waits != replayed.column(name):
                yield Failure("reference: loads", f"{name}: {replayed.column(name)} and {waits}")
    if (replayed.case.config.get("handover") or {}).get("offer") == "arrival":
        waits = [request.acceptance_wait for request in expected.requests]
        if waits != replayed.column("acceptance_wait"):
            yield Failure("reference: acceptances", f"{replayed.column('acceptance_wait')} and {waits}")
    if replayed.case.config.get("stores"):
        fetched = [request.store_tokens for request in expected.requests]
        if fetched != replayed.column("store_tokens"):
            yield Failure("reference: store", f"{replayed.column('store_tokens')} and {fetched}")


def _usage(replayed: Replayed, expected: policy_sim.Outcome) -> Iterator[Failure]:
    stats = replayed.stats
    if stats["end_ticks"] != expected.end:
        yield Failure("reference: end", f"{stats['end_ticks']} and {expected.end}")
    if carried(stats) != carried_by(expected):
        yield Failure("reference: network", f"{carried(stats)} and {carried_by(expected)}")
    if stats["stores"] != (stores := stores_of(expected)):
        yield Failure("reference: stores", f"{stats['stores']} and {stores}")
        return
    for index, (used, replica) in enumerate(zip(stats["instances"], expected.replicas, strict=True)):
        if (tier := tier_of(replica)) != used.get("tier"):
            yield Failure("reference: tier", f"instance {index}: {used.get('tier')} and {tier}")
            return
        if (copies := store_of(replica)) != used.get("store"):
            yield Failure("reference: store", f"instance {index}: {used.get('store')} and {copies}")
            return
        wanted = counters_of(replica) | cached_by(replica)
        differ = {name: (used[name], value) for name, value in wanted.items() if used[name] != value}
        if differ:
            yield Failure("reference: usage", f"instance {index}: {differ}")
            return
