"""Names of orders of requests, and the column of integers that the engine sorts by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from paceline.errors import PolicyError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["OF_COLUMNS", "OF_OUTPUTS", "OF_PRIORITIES", "QueueOrder", "priorities"]

QueueOrder = Literal[
    "arrival",
    "priority",
    "highest_priority",
    "priority_then_longest_output",
    "highest_priority_then_longest_output",
    "score",
    "longest_output",
    "longest_prefix",
    "shared_prefix",
]
"""The order in which requests are admitted.

``arrival``: first come, first served; preempted requests come before new ones.
``priority``, ``score``: the trace's column, smallest first; ``highest_priority``: largest
first. ``longest_output``: the most output tokens, which only an oracle knows; beside a
priority they decide among equal ones. ``longest_prefix``: the most cached tokens, evaluated
for each step while at most 128 requests wait; a request with at most 32 that begins with the
same 32 tokens as one before it comes last. ``shared_prefix``: depth first through the
`RadixTree` of cached prefixes, where the most waiting requests begin alike first.
"""

OF_PRIORITIES = (
    *("priority", "highest_priority"),
    *("priority_then_longest_output", "highest_priority_then_longest_output"),
)
"""Orders by the trace's column of priorities."""
OF_OUTPUTS = ("longest_output", "priority_then_longest_output", "highest_priority_then_longest_output")
"""Orders by the lengths of outputs."""
OF_COLUMNS = frozenset({*OF_PRIORITIES, *OF_OUTPUTS, "score"})
"""Orders for which the engine is given a column."""

_OUTPUTS = 2**32


def priorities(order: str, given: NDArray[np.int64], output: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return integers that sort requests by an order of `OF_PRIORITIES`, the smallest first.

    Raises
    ------
    PolicyError
        If outputs decide among equal priorities, and a priority is out of range.
    """
    # -1 - p falls as p rises, and has no number that overflows.
    sorted_by = -1 - given if order.startswith("highest") else given
    if order not in OF_OUTPUTS:
        return sorted_by
    most = _OUTPUTS // 4
    if len(given) and not -most <= int(given.min()) <= int(given.max()) <= most:
        worst = max(int(given.min()), int(given.max()), key=abs)
        raise PolicyError(f"priority must be {-most} to {most} under order {order!r}, was {worst}")
    return sorted_by * _OUTPUTS - output
