"""Checking a result against the invariants."""

from __future__ import annotations

import math

from paceline._arguments import typed
from paceline.result import Result
from paceline.testing import clients
from paceline.testing.invariants import CHECKS
from paceline.testing.rows import Rows
from paceline.testing.violation import BrokenInvariant

__all__ = ["check"]


@typed()
def check(result: Result) -> None:
    """Raise an error if a result breaks an invariant.

    Moments in order, tokens and blocks conserved, every request accounted for,
    no idle time beside work, latencies that follow from the moments, time and
    tokens of the requests equal to those of their instances; requests that wait
    for answers sent after them, and no more in flight than a limit allows:
    `docs/invariants.md` has the statements.

    Parameters
    ----------
    result
        A result of `paceline.replay` or `paceline.load_result`.

    Raises
    ------
    BrokenInvariant
        An `InvariantViolation` with the ``number`` and ``statement`` of the
        first broken invariant, by number, and the first ``request`` that breaks it
        with its ``time_s``, if a request does.

    Examples
    --------
    >>> import paceline
    >>> trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[100], output_tokens=[3])
    >>> cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.01), num_blocks=101)])
    >>> check(paceline.replay(trace, cluster))
    """
    rows = Rows.of(result)
    for invariant in (*CHECKS, *clients.CHECKS):
        first = min(invariant(rows), key=_when, default=None)
        if first is not None:
            raise first


def _when(broken: BrokenInvariant) -> tuple[int, float]:
    return broken.number, math.inf if broken.time_s is None else broken.time_s
