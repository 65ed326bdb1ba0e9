"""Steps of the reference in the format of the engine's record."""

from __future__ import annotations

from typing import Any

from paceline.testing.reference.policy_sim.step import Step

DECODES = {"decode", "swapped_in_decode", "landed"}


def record(step: Step, row: list[Any]) -> dict[str, Any]:
    """Return a step; ``row``: its decisions, as the reference keeps them."""
    parts = {request.index: part for request, part in step.parts.items()}
    start, scheduled, preempted, copied, free = row
    return {
        "start": start,
        "ticks": 0 if step.ended is None else step.ended - start,
        "decided": step.decided,
        "scheduled": [[*entry, parts[entry[0]]] for entry in scheduled],
        "drafted": [drafted(step, entry) for entry in scheduled],
        "preempted": preempted,
        "copied": copied,
        # A batch that is preempted as the step is formed leaves decodes, which run in all layers alike.
        "group": list(step.group) if step.group and not {*parts.values()} <= DECODES else None,
        "free_blocks": free,
    }


def drafted(step: Step, entry: list[int]) -> list[int]:
    """Return a request's drafts in a step, those that are accepted, and the tokens that it yields.

    A step that the end of time cuts off yields none.
    """
    request = next(one for one in step.tokens if one.index == entry[0])
    return [step.drafts.get(request, 0), *step.verified.get(request, (-1, 0))]
