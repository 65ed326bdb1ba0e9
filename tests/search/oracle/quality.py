"""Quality of experience and the gaps between tokens, from the times of the reference's tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from paceline.testing.reference import policy_sim
from search.oracle.failure import Failure
from search.oracle.replayed import Replayed

EXACT = 1e-12
"""The engine sums in integers and divides once, as the reference does; they round differently."""


def broken(replayed: Replayed, expected: policy_sim.Outcome) -> Iterator[Failure]:
    """Yield the differences between the engine's qualities and gaps, and those of the reference's tokens."""
    yield from _qualities(replayed, expected)
    yield from _gaps(replayed, expected)


def _qualities(replayed: Replayed, expected: policy_sim.Outcome) -> Iterator[Failure]:
    pace = replayed.case.config["pace"]
    if pace is None:
        return
    found = {name: replayed.column(name) for name in ("qoe_answering", "qoe")}
    for row, request in enumerate(expected.requests):
        for name, value in _wanted(pace, request).items():
            ours = found[name][row] if found[name] else math.nan
            if not (math.isnan(ours) and math.isnan(value)) and not abs(ours - value) <= EXACT:
                yield Failure("reference: quality", f"row {row}: {name} {ours!r} and {value!r}")
                return


def _wanted(pace: dict[str, int], request: policy_sim.Request) -> dict[str, float]:
    """Return the qualities of a request; NaN before it has finished, and none if it has no answer."""
    times, asked = request.answer_times, pace["ttft"] is not None
    if not request.finished:
        return {"qoe_answering": math.nan, "qoe": math.nan}
    if not times:
        return {}
    interval = pace["interval"]
    wanted = {"qoe_answering": policy_sim.qoe_answering(times, interval), "qoe": math.nan}
    if asked:
        wanted["qoe"] = policy_sim.qoe(times, interval, request.spec.arrival + pace["ttft"])
    return wanted


def _gaps(replayed: Replayed, expected: policy_sim.Outcome) -> Iterator[Failure]:
    gaps = [
        after - before
        for request in [*expected.requests, *(one for each in expected.before for one in each)]
        for before, after in pairwise(request.token_times)
    ]
    itl = replayed.outcome.itl
    ours = (itl.count, itl.sum_ticks, itl.min_ticks, itl.max_ticks)
    wanted = (len(gaps), sum(gaps), min(gaps, default=None), max(gaps, default=None))
    if ours != wanted:
        yield Failure("reference: gaps", f"{ours} and {wanted}")
