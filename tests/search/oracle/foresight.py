"""INV-9: decisions do not see what has not happened."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from search.case import Case
from search.oracle.failure import Failure
from search.oracle.replayed import NEVER, REJECTED, Replayed

MOST = 40


def covers(case: Case) -> bool:
    """Whether nothing in a case is told what outputs will be: no oracle, no turns that quote answers."""
    if "oracle." in str(case.config) or any("session" in row for row in case.requests):
        return False
    # Where a request may go depends on which instances could hold all of it: here all can, or one is all.
    longest = max(max(row["output_tokens"], MOST) + row["prompt_tokens"] for row in case.requests)
    fleet = case.config["instances"]
    return len(fleet) == 1 or all(_holds(one, longest) for one in fleet)


def _holds(instance: dict[str, Any], tokens: int) -> bool:
    scheduler = instance["scheduler"]
    room = (instance["blocks"] - scheduler["watermark_blocks"] - 1) * instance["block_tokens"]
    cut = all(stage.get("chunked", True) for stage in scheduler["stages"])
    in_a_step = cut or tokens <= scheduler["max_num_batched_tokens"]
    return in_a_step and tokens <= min(room, instance["max_model_len"] or room)


def broken(replayed: Replayed, seed: int) -> Iterator[Failure]:
    """Change some outputs, and yield decisions that differ before the first of those completions."""
    case, chosen = replayed.case, random.Random(seed)
    changed: list[int] = []
    requests = []
    for row, request in enumerate(case.requests):
        output = chosen.randint(1, MOST)
        if chosen.random() < 0.5 and min(output, request["output_tokens"]) > request.get(
            "reasoning_tokens", 0
        ):
            request = {**request, "output_tokens": output}
            changed.append(row)
        requests.append(request)
    if not changed:
        return
    other = Replayed(replace(case, requests=requests), leap=replayed.leap, record=True)
    if REJECTED in replayed.column("status") or REJECTED in other.column("status"):
        return
    ends = [one.column("finish_ticks")[row] for one in (replayed, other) for row in changed]
    first = min(ends, default=NEVER)
    for index, (ours, theirs) in enumerate(zip(replayed.decisions, other.decisions, strict=True)):
        before = [[step for step in log if step["start"] < first] for log in (ours, theirs)]
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
