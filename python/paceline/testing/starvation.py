"""Starvation: requests that are passed over."""

from __future__ import annotations

import numpy as np
import polars as pl

from paceline import _check
from paceline._arguments import typed
from paceline.cost import Affine
from paceline.deployment import Cluster, Instance
from paceline.policy import Policy
from paceline.replaying import replay
from paceline.result import Result
from paceline.testing.rows import Floats, Rows
from paceline.trace import Trace

__all__ = ["Starvation", "assert_no_starvation", "overload", "overtaken_s"]


class Starvation(AssertionError):
    """A request was passed over for longer than the bound.

    Attributes
    ----------
    request
        Its row, in the trace's order.
    waited_s
        Seconds for which later arrivals were served and it was not.
    """

    def __init__(self, message: str, *, request: int, waited_s: float) -> None:
        self.request = request
        self.waited_s = waited_s
        super().__init__(message)


@typed()
def assert_no_starvation(
    policy: Policy,
    bound_s: float,
    *,
    trace: Trace | None = None,
    cluster: Cluster | None = None,
    until: float | None = None,
) -> None:
    """Raise an error if a request waits for longer than a bound while later arrivals are served.

    Under overload requests wait under every policy. A request starves if it is
    passed over: the time counts from when a request that arrived later at the same
    instance is admitted first, until the request itself is admitted. After a
    preemption, its longest gap between two tokens counts likewise.

    Parameters
    ----------
    policy
        The policy.
    bound_s
        The longest that a request may be passed over, in seconds.
    trace
        The requests; None: `overload`.
    cluster
        The instances; None: one small instance, which that trace overloads.
    until
        The end of the simulated time; a request that has not been admitted by then
        has been passed over until then.

    Raises
    ------
    Starvation
        An `AssertionError` that names the request that was passed over longest.

    Examples
    --------
    >>> import paceline
    >>> assert_no_starvation(paceline.policies.vllm(), bound_s=1.0)
    >>> assert_no_starvation(paceline.policies.vllm(policy="priority"), bound_s=1.0)
    Traceback (most recent call last):
        ...
    paceline.testing.starvation.Starvation: vllm has request ... wait for ...
    """
    trace = overload() if trace is None else trace
    cluster = _small_cluster() if cluster is None else cluster
    result = replay(trace, cluster, policy, until=until)
    waited = overtaken_s(result)
    worst = int(np.argmax(waited))
    if waited[worst] > bound_s:
        row = result.requests.row(worst, named=True)
        raise Starvation(
            f"{policy.name} has request {worst} (arrival {row['arrival']!r} s, {row['prompt_tokens']} + "
            f"{row['output_tokens']} tokens, {row['status']}) wait for {float(waited[worst]):.3f} s while it "
            f"serves later ones; the bound was {bound_s!r} s",
            request=worst,
            waited_s=float(waited[worst]),
        )


@typed()
def overtaken_s(result: Result) -> Floats:
    """Return for how long each request was passed over, in seconds.

    Parameters
    ----------
    result
        A result of `paceline.replay`.

    Returns
    -------
    numpy.ndarray
        One entry a request: from the first admission of a later arrival on its
        instance to its own, or after a preemption its longest gap between two
        tokens, if that is longer. 0 for requests that were never passed over.

    Examples
    --------
    >>> import paceline
    >>> trace = paceline.Trace.from_columns(
    ...     arrival=[0.0, 0.1, 0.2], prompt_tokens=[9, 9, 9], output_tokens=[5, 5, 5], priority=[0, 2, 1]
    ... )
    >>> cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.1), num_blocks=9)])
    >>> policy = paceline.policies.vllm(policy="priority", max_num_seqs=1)
    >>> overtaken_s(paceline.replay(trace, cluster, policy)).round(9).tolist()
    [0.0, 0.5, 0.0]
    """
    rows = Rows.of(result)
    arrival, scheduled = rows.seconds("arrival"), rows.seconds("scheduled")
    let_in = np.where(np.isnan(scheduled), rows.end_s, scheduled)
    passed = np.zeros(len(let_in))
    for index in range(len(rows.instances)):
        here = np.flatnonzero(rows.on(index))
        order = here[np.lexsort((here, arrival[here]))]
        if len(order) < 2:
            continue
        # The first admission of all later requests in the order of arrival.
        later = np.where(np.isnan(scheduled[order]), np.inf, scheduled[order])
        first_later = np.minimum.accumulate(later[::-1])[::-1]
        passed[order[:-1]] = np.maximum(0.0, let_in[order[:-1]] - first_later[1:])
    preempted = rows.count("preemptions") > 0
    return np.maximum(passed, np.where(preempted, np.nan_to_num(rows.seconds("max_itl")), 0.0))


@typed()
def overload(
    *, requests: int = 600, rate_per_s: float = 20.0, prompt_tokens: int = 100, output_tokens: int = 20
) -> Trace:
    """Return a trace that overloads a small instance; one request in ten is the worst by any rank.

    Those requests have the largest ``priority`` and ``score``, and the longest
    output, so that a policy that starves any request starves them.

    Parameters
    ----------
    requests
        The number of requests, evenly spaced.
    rate_per_s
        Their rate.
    prompt_tokens, output_tokens
        Lengths of the other requests; the worst have twice the output.

    Returns
    -------
    Trace
        The trace.

    Examples
    --------
    >>> overload(requests=20).frame["priority"].sum()
    2
    """
    for name_, value, most in (
        ("requests", requests, 10**7),
        ("prompt_tokens", prompt_tokens, 2**29),
        ("output_tokens", output_tokens, 2**28),
    ):
        _check.count(f"{name_} of overload()", value, most=most)
    _check.positive("rate_per_s of overload()", rate_per_s)
    row = np.arange(requests)
    worst = row % 10 == 5
    return Trace(
        pl.DataFrame(
            {
                "arrival": row / rate_per_s,
                "prompt_tokens": np.full(requests, prompt_tokens, dtype=np.uint32),
                "output_tokens": (output_tokens * (1 + worst)).astype(np.uint32),
                "priority": worst.astype(np.int32),
                "score": worst.astype(np.float64),
            }
        ),
        name="overload",
    )


def _small_cluster() -> Cluster:
    """Serve at most 4 requests at once: 4 of 20 steps of 20 ms make 10 a second."""
    return Cluster([Instance(cost=Affine(step_s=0.020), num_blocks=1 + 4 * 8)])
