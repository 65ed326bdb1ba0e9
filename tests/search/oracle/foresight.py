"""INV-9: decisions do not see what has not happened.

Outputs are changed so that every instance refuses the same requests, for the same reasons: a request is
refused as it arrives by its true length (DESIGN.md), because it could never finish.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from paceline.testing.reference.policy_sim.refusing import refusal
from search.case import Case
from search.oracle import progress
from search.oracle.failure import Failure
from search.oracle.replayed import NEVER, Replayed

MOST = 40
Row = dict[str, Any]


def covers(case: Case) -> bool:
    """Whether no decision of a case may depend on outputs: no oracle, no room for them, no quoted answers."""
    quoted = any("session" in row for row in case.requests) and not case.prefix_block_tokens
    cached = any(one["scheduler"]["prefix_cache"] for one in case.config["instances"])
    schedulers = [one["scheduler"] for one in case.config["instances"]]
    reserved = any(one.get("output_reserve") for one in schedulers)
    reserved = reserved or bool((case.config.get("handover") or {}).get("reserve"))
    reserved = reserved or any(one["allocation"] == "chunk_if_output_fits" for one in schedulers)
    return "oracle." not in str(case.config) and not reserved and not (quoted and cached)


def broken(replayed: Replayed, seed: int) -> Iterator[Failure]:
    """Change some outputs, and yield decisions that differ before the first of those completions."""
    case = replayed.case
    requests, changed = _changed(case, random.Random(seed))
    if not changed:
        return
    changed_case = replace(case, requests=requests)
    other, stop = progress.replayed(changed_case, leap=replayed.leap, record=True)
    first = NEVER
    if other is None:
        assert stop is not None
        # The error is raised when no token is yielded any more; no decision depends on it.
        other, again = progress.replayed(progress.before(changed_case, stop), leap=replayed.leap, record=True)
        if other is None:
            yield Failure("progress: stops before its moment", f"{stop}, then {again}")
            return
        first = stop.at
    ends = [_end(one, row) for one in (replayed, other) for row in changed]
    cuts = [until for one in (replayed, other) if (until := one.case.config["until"]) is not None]
    first = min([first, *ends, *cuts])
    for index, (ours, theirs) in enumerate(zip(replayed.decisions, other.decisions, strict=True)):
        # A step that the end of time cuts off may be in either log, in both, or in none. So may a batch in a
        # pipeline that is under way when the last request is cancelled, and the replay ends.
        last = min([*cuts, *(one.stats["end_ticks"] for one in (replayed, other))])
        before = [
            [
                _decided(step)
                for step in log
                if step["start"] < first and step["start"] + step["ticks"] <= last
            ]
            for log in (ours, theirs)
        ]
        if cuts and abs(len(ours) - len(theirs)) == 1:
            # In lockstep a step may end later than by itself.
            before = [steps[: min(map(len, before))] for steps in before]
        if before[0] != before[1]:
            at = next(
                (i for i, (one, two) in enumerate(zip(*before, strict=False)) if one != two),
                min(map(len, before)),
            )
            shown = [steps[at] if at < len(steps) else None for steps in before]
            yield Failure(
                "INV-9: decisions do not see outputs",
                f"outputs of rows {changed} changed, instance {index}, step {at}, before {first}: {shown}",
            )
            return


def _end(replayed: Replayed, row: int) -> int:
    """Return when a request showed its output's length, or was cancelled just before it did.

    Of one that was sent again, an earlier attempt may have: all that is known is when it was first sent.
    """
    first: int = replayed.first_sent[row]
    if first != replayed.sent[row]:
        return first
    finish = int(replayed.column("finish")[row])
    output = replayed.case.requests[row]["output_tokens"]
    if finish == NEVER and replayed.column("generated_tokens")[row] == output:
        return int(replayed.column("cancelled_at")[row])
    return finish


def _decided(step: Row) -> Row:
    """Return a recorded step without the tokens that it yields: a request may end with the first of them."""
    drafts = [drafts for drafts, _, _ in step.get("drafted", [])]
    return {**step, "drafted": drafts}


def _changed(case: Case, chosen: random.Random) -> tuple[list[Row], list[int]]:
    """Return rows of which some have other outputs, and the numbers of these."""
    requests, changed = [], []
    for row, request in enumerate(case.requests):
        other = {**request, "output_tokens": chosen.randint(1, MOST)}
        reasons = request.get("reasoning_tokens", 0)
        shortest = min(other["output_tokens"], request["output_tokens"])
        if (
            chosen.random() < 0.5
            and shortest > reasons
            and _refusals(case, other) == _refusals(case, request)
        ):
            changed.append(row)
            requests.append(other)
        else:
            requests.append(request)
    return requests, changed


def _refusals(case: Case, row: Row) -> list[str | None]:
    """Return why each instance refuses a request; None where it does not."""
    lengths = row["prompt_tokens"], row["output_tokens"]
    return [refusal(*lengths, instance) for instance in case.config["instances"]]
