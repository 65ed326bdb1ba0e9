"""`paceline.capacity`: the highest rate at which a cluster meets an objective.

The load is raised as papers raise it: the arrivals of the trace are multiplied by a constant, which keeps the
order, the lengths and the shape of the bursts. At each rate the whole trace is replayed, to its end. No
replay is cut short: one that is overloaded takes no longer than one that is not, and the curve has its exact
attainment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import polars as pl

from paceline import _check
from paceline._arguments import typed
from paceline.deployment import Cluster
from paceline.errors import ConfigError
from paceline.objectives import SLO
from paceline.planning.asking import Asked, Search
from paceline.planning.edge import Edge, highest_passing
from paceline.planning.found import Capacity
from paceline.planning.measured import Criterion, Measured, Rule, skipped_of
from paceline.planning.replays import concurrent, gpus_of, replayed
from paceline.planning.rounds import Heed, Rounds
from paceline.planning.ties import ties_of, warn_of_ties
from paceline.policies.vllm import vllm
from paceline.policy import Policy
from paceline.trace import Trace

__all__ = ["capacity"]

_WIDEST: Final = 1024.0
"""The search's limits if none are given: this many times the trace's rate, and this part of it."""

_LONGEST_S: Final = 8_000_000.0
"""The longest span to which arrivals are stretched: half of what the clock holds (185 days)."""

_Key = tuple[tuple[int, ...], float]


@typed()
def capacity(
    trace: Trace | Sequence[Trace],
    cluster: Cluster,
    policy: Policy | None = None,
    slo: SLO | None = None,
    target: float = 0.90,
    *,
    rule: Rule = "joint",
    tolerance: float = 0.01,
    between: tuple[float | None, float | None] = (None, None),
    windows: int = 1,
    warmup_s: float = 0.0,
    workers: int | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Capacity:
    """Search for the highest request rate at which a cluster meets an objective.

    The answer is the highest evaluated rate such that it and all evaluated rates below it pass. The search
    brackets it by doubling or halving from the trace's own rate, divides the bracket until it is no wider
    than the tolerance, and then evaluates rates on both sides of the edge, near it and far from it. If a
    lower one fails, the search continues there. If a higher one passes, the result says so (``monotone``,
    ``crossings``, ``highest_pass``): the rates from ``fails_at`` to ``highest_pass`` are those where the
    attainment differs from the target by less than it differs between neighbouring rates.

    Parameters
    ----------
    trace
        The requests; or several traces, such as one for each seed, whose requests are judged together.
    cluster
        The instances that serve them.
    policy
        How requests are routed and scheduled; None: vLLM V1's scheduler.
    slo
        The bounds. Must be given.
    target
        The share of requests that must meet them.
    rule
        ``"joint"``: at least this share of all requests finish within every bound; rejected ones do not.
        ``"marginal"``: for each bound, this percentile of the latency is below it, as DistServe's placement
        search asks (P90 TTFT and P90 TPOT); a rejected request's latency is infinite, and the TPOT of a
        single token 0.
    tolerance
        The width of the last bracket, relative to the rate.
    between
        The lowest and the highest rate of the search, in requests per second. None: 1/1024 and 1024 times the
        trace's own rate.
    windows
        Cut each trace into so many windows of equal duration, and search for the capacity of each by itself
        also: see `Capacity.band`. With several traces, 1 takes each trace for a window.
    warmup_s
        Requests that arrive in the first so many seconds of the trace, at its own rate, are replayed but not
        judged: the same requests at each rate. Each window begins anew.
    workers
        Replays at a time; None: one on each core. The result does not depend on it. A policy with rules that
        are Python functions is replayed by one at a time, as these may keep state.
    progress
        Called about ten times a second with the number of replays done, those under way counted by their
        share, and the number that is likely needed.

    Returns
    -------
    Capacity
        The rate, and the curve of all evaluated rates.

    Raises
    ------
    ConfigError
        If an argument is out of range, or a window has no request.
    TraceError
        If all requests of the trace arrive at one instant, so that it has no rate.
    PacelineError
        As `replay` does.

    Examples
    --------
    Requests of one token, 100 apart by 1 s, on a server that takes 0.5 s for each: it keeps up with 2 a
    second.

    >>> import paceline
    >>> trace = paceline.Trace.from_columns(
    ...     arrival=range(100), prompt_tokens=[1] * 100, output_tokens=[1] * 100)
    >>> cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=9)])
    >>> found = paceline.capacity(
    ...     trace, cluster, paceline.policies.vllm(max_num_seqs=1), paceline.SLO(ttft=0.5),
    ...     between=(None, 16.0))
    >>> found.rate, found.monotone
    (2.0, True)
    """
    if slo is None:
        raise ConfigError("slo of capacity() must be given, was None: slo=SLO(ttft=2.0, tpot=0.15)")
    criterion = Criterion(slo=slo, target=target, rule=rule)
    policy = vllm() if policy is None else policy
    traces = [trace] if isinstance(trace, Trace) else list(trace)
    own = _own_rate(traces)
    ties = ties_of(traces)
    warn_of_ties(ties, target, " + ".join(dict.fromkeys(each.name for each in traces)))
    low, high = _limits(own, between, tolerance, max(each.span_s for each in traces))
    whole = tuple(range(len(traces)))
    parts = _windows(traces, windows)
    samples = [(len(traces) + index,) for index in range(len(parts))]
    loads = traces + parts
    skipped = [skipped_of(each, warmup_s, "capacity()") for each in loads]

    def answer(key: _Key, heed: Heed) -> Measured:
        case, rate = key
        outcomes = []
        for done, index in enumerate(case):
            load = loads[index].stretched(own / rate)
            heard = _share_of(heed, done, len(case))
            result = replayed(load, cluster, policy, heard)
            outcomes.append(criterion.sample(result, skipped[index]))
        return criterion.judge(outcomes)

    rounds = Rounds[_Key, Measured](answer, workers=concurrent(policy, workers), report=progress)
    start = min(max(own, low), high)
    cases = [whole, *samples]
    edges = rounds.run([_keyed(case, highest_passing(start, low, high, tolerance)) for case in cases])
    gpus = gpus_of(cluster)
    edge = edges[0]
    rows = [
        {
            "rate": rate,
            "scale": rate / own,
            "gpu_rate": rate / gpus,
            **criterion.row(rounds.of((whole, rate))),
        }
        for rate in edge.seen
    ]
    return Capacity(
        rate=edge.passes,
        scale=None if edge.passes is None else edge.passes / own,
        gpu_rate=None if edge.passes is None else edge.passes / gpus,
        fails_at=edge.fails,
        bound=_bound(edge),
        lowest=low,
        highest=high,
        crossings=edge.crossings,
        monotone=edge.monotone,
        highest_pass=max((rate for rate, passes in edge.seen.items() if passes), default=None),
        curve=pl.DataFrame(rows),
        samples=_samples(parts, edges[1:], own),
        slo=slo,
        target=target,
        rule=rule,
        tolerance=tolerance,
        gpus=gpus,
        trace=" + ".join(dict.fromkeys(each.name for each in traces)),
        own_rate=own,
        ties=ties,
        policy=policy.name,
    )


def _own_rate(traces: Sequence[Trace]) -> float:
    """Return the mean rate of traces together: gaps between arrivals over spans."""
    if not traces:
        raise ConfigError("trace of capacity() must be a Trace or a list of at least one, was an empty list")
    span = sum(each.span_s for each in traces)
    if span == 0:
        name = traces[0].name
        raise ConfigError(
            f"{name}: a trace must have arrivals at two instants or more to have a rate, its requests arrive "
            f"at one"
        )
    return sum(len(each) - 1 for each in traces) / span


def _limits(
    own: float, between: tuple[float | None, float | None], tolerance: float, span_s: float
) -> tuple[float, float]:
    """Return the limits of the search, in requests per second."""
    if not _check.is_number(tolerance) or not 1e-6 <= tolerance <= 0.5:
        raise ConfigError(f"tolerance must be from 1e-06 to 0.5, was {tolerance}")
    if len(between) != 2:
        raise ConfigError(f"between must be the lowest and the highest rate, was {between}")
    lowest, highest = between
    for name, limit in (("lowest", lowest), ("highest", highest)):
        if limit is not None:
            _check.positive(f"{name} rate of capacity()", limit)
    least = own * span_s / _LONGEST_S
    if lowest is not None and lowest < least:
        raise ConfigError(
            f"between must begin at {least:.3g} requests/s or more, at which the trace spans 92 days, "
            f"was {lowest}"
        )
    low = max(own / _WIDEST, least) if lowest is None else float(lowest)
    high = own * _WIDEST if highest is None else float(highest)
    if lowest is None:
        low = min(low, high)
    if highest is None:
        high = max(low, high)
    if low > high:
        raise ConfigError(f"between must begin with the lower rate, was {between}")
    return low, high


def _windows(traces: Sequence[Trace], windows: int) -> list[Trace]:
    """Return the traces to search by themselves: each of several, or windows of each."""
    _check.count("windows", windows)
    if windows == 1:
        return list(traces) if len(traces) > 1 else []
    cut = []
    for trace in traces:
        arrivals = trace.frame.get_column("arrival")
        first, width = float(arrivals[0]), trace.span_s / windows
        for index in range(windows):
            start = first + width * index
            # The last window ends after the last arrival, which belongs to it.
            end = start + width if index < windows - 1 else first + 2 * trace.span_s
            if not ((arrivals >= start) & (arrivals < end)).any():
                raise ConfigError(
                    f"windows must leave requests in each: {trace.name} has none from {start:.6g} "
                    f"to {end:.6g} s, was {windows}"
                )
            cut.append(trace.window(start, end))
    return cut


def _keyed(case: tuple[int, ...], search: Search[float, bool, Edge]) -> Search[_Key, Measured, Edge]:
    """Ask a search's rates of a case, and answer whether they pass."""
    asked = next(search)
    while True:
        answers = yield Asked(tuple((case, rate) for rate in asked.batch), asked.after)
        try:
            asked = search.send([measured.passes for measured in answers])
        except StopIteration as end:
            edge: Edge = end.value
            return edge


def _share_of(heed: Heed, done: int, of: int) -> Heed:
    return lambda share: heed((done + share) / of)


def _bound(edge: Edge) -> Any:  # noqa: ANN401 - "above", "below" or None
    if edge.passes is None:
        return "below"
    return "above" if edge.fails is None else None


def _samples(parts: Sequence[Trace], edges: Sequence[Edge], own: float) -> pl.DataFrame | None:
    if not parts:
        return None
    rows = [
        {
            "sample": index,
            "requests": len(part),
            "rate": edge.passes,
            "scale": None if edge.passes is None else edge.passes / own,
            "bound": _bound(edge),
            "monotone": edge.monotone,
        }
        for index, (part, edge) in enumerate(zip(parts, edges, strict=True))
    ]
    return pl.DataFrame(rows, schema_overrides={"rate": pl.Float64, "scale": pl.Float64, "bound": pl.String})
