"""Which kinds of instances have room for their model."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.errors import FitError
from paceline.planning.layouts import Kind, Layouts

__all__ = ["fitting"]


def fitting(kinds: Sequence[Kind], layouts: Layouts) -> tuple[list[Kind], dict[str, str]]:
    """Return the kinds of several that the model fits, and by the name of each other kind why it does not.

    Raises
    ------
    FitError
        If the model fits none.
    """
    if len(kinds) == 1:
        return list(kinds), {}  # its first replay says whether it fits
    reasons = {kind.name: reason for kind in kinds if (reason := _reason(kind, layouts)) is not None}
    if len(reasons) == len(kinds):
        raise FitError("; ".join(f"{name}: {reason}" for name, reason in reasons.items()))
    return [kind for kind in kinds if kind.name not in reasons], reasons


def _reason(kind: Kind, layouts: Layouts) -> str | None:
    """Say why a kind does not fit under the schedulers of the smallest cluster; None if it does."""
    counts = (1,) * len(layouts.pools)
    policy = layouts.policy(counts)
    defaults = kind.instance.default_batching()
    for index in range(sum(counts)):
        tokens, seqs = policy.scheduler_of(index).sized_for(defaults)
        try:
            kind.instance.to_wire(max_num_batched_tokens=tokens, max_num_seqs=seqs)
        except FitError as error:
            return str(error)
    return None
