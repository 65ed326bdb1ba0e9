"""Checks that the replays of a policy are exact: leaps, repetition, threads, order of rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import polars as pl

from paceline import _check
from paceline._arguments import typed
from paceline._jobs import Jobs
from paceline.cost import Affine
from paceline.deployment import Cluster, Instance
from paceline.policy import Policy
from paceline.replaying import replay
from paceline.result import Result
from paceline.testing.checking import check
from paceline.testing.violation import BrokenInvariant
from paceline.trace import Trace

__all__ = ["assert_equivalent"]

_LEAP = "a replay that leaps = one that takes every step"
_SAME = "a replay = the same replay again"
_THREADS = "replays beside each other = replays one after another"
_ROWS = "a trace = the same trace with its rows in another order"


@typed()
def assert_equivalent(
    policy: Policy,
    *,
    trace: Trace | None = None,
    cluster: Cluster | None = None,
    examples: int = 50,
    threads: int = 4,
) -> None:
    """Raise an error unless a policy's replays are exact.

    Four pairs of results must be equal in every bit, and the first of each must
    pass `check`: leaping and stepping, to the end and cut short half way; a replay
    and its repetition; several replays at once and one after another; a trace and
    the same trace with its rows in another order (rows with equal arrivals keep
    their order, which decides which request is served first).

    Parameters
    ----------
    policy
        The policy.
    trace
        The requests; None: many small traces, drawn by hypothesis.
    cluster
        The instances; None: drawn with the trace, or a single small instance if a
        trace is given.
    examples
        The number of traces drawn.
    threads
        Replays at once.

    Raises
    ------
    BrokenInvariant
        An `InvariantViolation` that names the first request and column that
        differ.
    ImportError
        Without a trace, if hypothesis is not installed.

    Examples
    --------
    >>> import paceline
    >>> assert_equivalent(paceline.policies.vllm(max_num_batched_tokens=16), examples=5)
    """
    _check.count("examples of assert_equivalent()", examples, most=10**6)
    _check.count("threads of assert_equivalent()", threads, most=256)
    if trace is not None:
        _hold(policy, trace, _default_cluster(trace) if cluster is None else cluster, threads)
        return
    from paceline.testing import strategies

    # After `strategies`, which says what to install if hypothesis is missing.
    from hypothesis import HealthCheck, given, settings  # isort: skip
    from hypothesis import strategies as st

    clusters = strategies.clusters() if cluster is None else st.just(cluster)

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(drawn=strategies.traces(), served_by=clusters)
    def holds(drawn: Trace, served_by: Cluster) -> None:
        _hold(policy, drawn, served_by, threads)

    holds()


def _default_cluster(trace: Trace) -> Cluster:
    """Return one instance that holds two of the longest sequences."""
    lengths = trace.frame.select(pl.col("prompt_tokens").cast(pl.Int64) + pl.col("output_tokens"))
    longest = int(lengths.to_series().to_numpy().max())
    cost = Affine(step_s=0.010, token_s=1e-5, kv_token_s=1e-7)
    return Cluster([Instance(cost=cost, num_blocks=3 + 2 * longest // 16)])


def _hold(policy: Policy, trace: Trace, cluster: Cluster, threads: int) -> None:
    result = replay(trace, cluster, policy)
    check(result)
    _same(5, _LEAP, result, replay(trace, cluster, policy, leap=False), events=False)
    half = result.stats.end_ticks / 2e12
    cut = [replay(trace, cluster, policy, until=half, leap=leap) for leap in (True, False)]
    check(cut[0])
    _same(5, _LEAP, cut[0], cut[1], events=False)
    _same(6, _SAME, result, replay(trace, cluster, policy))
    beside = Jobs(range(threads), lambda _, heed: replay(trace, cluster, policy), workers=threads)
    for other in beside.results():
        _same(6, _THREADS, result, other)
    _same(7, _ROWS, result, replay(_reordered(trace), cluster, policy))


def _reordered(trace: Trace) -> Trace:
    """Return the trace with its moments in reverse order, and the rows of each moment in order."""
    frame = trace.frame
    latest_first = np.argsort(-frame["arrival"].to_numpy(), kind="stable")
    return Trace(frame[latest_first], name=trace.name, prefix_block_tokens=trace.prefix_block_tokens)


def _same(number: int, statement: str, one: Result, other: Result, *, events: bool = True) -> None:
    """Raise an error at the first request in which two results differ, or at the first counter."""
    left, right = one.requests, other.requests
    if not left.equals(right):
        raise _difference(number, statement, left, right)
    counters = [_counters(result, events=events) for result in (one, other)]
    for name, value in counters[0].items():
        if value != counters[1][name]:
            raise BrokenInvariant(number, statement, f"{name} {value!r} and {counters[1][name]!r}")
    if one.itl.to_json() != other.itl.to_json():
        raise BrokenInvariant(number, statement, "different gaps between tokens, in their sketch")


def _counters(result: Result, *, events: bool) -> dict[str, object]:
    stats = result.stats
    found: dict[str, object] = {"end_ticks": stats.end_ticks, "steps": stats.steps}
    if events:
        found["events"] = stats.events
    for index, instance in enumerate(stats.instances):
        for name, value in dataclasses.asdict(instance).items():
            found[f"{name} of instance {index}"] = value
    return found


def _difference(number: int, statement: str, left: pl.DataFrame, right: pl.DataFrame) -> BrokenInvariant:
    differing: Sequence[str] = [name for name in left.columns if not left[name].equals(right[name])]
    rows = [int(left[name].ne_missing(right[name]).arg_true()[0]) for name in differing]
    row = min(rows)
    name = differing[rows.index(row)]
    found = f"{name} {left[name][row]!r} and {right[name][row]!r}"
    return BrokenInvariant(number, statement, found, request=row, time_s=float(left["arrival"][row]))
