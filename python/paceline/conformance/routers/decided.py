"""The decisions and times of a log or of a replay, by request, and their first difference."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from paceline.conformance.difference import Difference

__all__ = ["Decided", "first_difference"]

Decided = dict[str, Sequence[Any]]
"""Columns with an entry for each request, by the words that name them in a difference.

The columns of a log and of its replay have the same names, in the same order.
"""


def first_difference(ours: Decided, theirs: Decided) -> Difference | None:
    """Return the difference of the first request of which a column differs; None if all are equal."""
    found: tuple[int, Difference] | None = None
    for (field, mine), other in zip(ours.items(), theirs.values(), strict=True):
        for i, (a, b) in enumerate(zip_longest(mine, other)):
            if a != b:
                if found is None or i < found[0]:
                    found = i, Difference(where=f"request {i}", field=field, ours=a, theirs=b)
                break
    return None if found is None else found[1]
