"""`paceline.capacity`: the highest load at which a cluster meets an objective.

The load is raised as papers raise it: the arrivals of the trace are multiplied by a constant, which keeps the
order, the lengths and the shape of the bursts. A trace with clients is replayed with more of them. At each
load the whole trace is replayed, to its end. No replay is cut short: one that is overloaded takes no longer
than one that is not, and the curve has its exact attainment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from paceline import _check
from paceline._arguments import typed
from paceline._jobs import Heed
from paceline.deployment import Cluster
from paceline.errors import ConfigError
from paceline.objectives import SLO, Percentiles
from paceline.planning.asking import Asked, Search
from paceline.planning.edge import Edge, highest_passing
from paceline.planning.found import Capacity
from paceline.planning.loads import InFlight, Load, load_of
from paceline.planning.measured import Judge, Judged, Measured, Rule, judged_after, skipped_of
from paceline.planning.percentiles import judge_of
from paceline.planning.replays import concurrent, gpus_of, replayed
from paceline.planning.rounds import Rounds
from paceline.planning.ties import ties_of, warn_of_ties
from paceline.policies.vllm import vllm
from paceline.policy import Policy
from paceline.result import Result
from paceline.trace import Trace

__all__ = ["capacity"]

_Key = tuple[tuple[int, ...], float]


@typed()
def capacity(
    trace: Trace | Sequence[Trace],
    cluster: Cluster,
    policy: Policy | None = None,
    slo: SLO | Percentiles | None = None,
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
    """Search for the highest request rate at which a cluster meets an objective, or the most in flight.

    Of a trace with clients (`Trace.by`) the answer is in their unit: the most requests, or sessions, in
    flight at once. A trace should then have several times as many, so that its end, where fewer are in
    flight, does not count for much.

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
        The bounds. Must be given. With `Percentiles` each percentile must be at most its bound, over all
        requests or all tokens, and ``target`` and ``rule`` are left out.
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
        The lowest and the highest rate of the search, in requests per second; None: 1/1024 and 1024 times the
        trace's own rate. With clients, the fewest and the most in flight; None: 1 and all that the trace has.
    windows
        Cut each trace into so many windows of equal duration, and search for the capacity of each by itself
        also: see `Capacity.band`. With several traces, 1 takes each trace for a window. With clients, 1.
    warmup_s
        Requests that arrive in the first so many seconds of the trace, at its own rate, are replayed but not
        judged: the same requests at each rate. Each window begins anew. With clients, those that are sent in
        the first so many seconds of a replay.
    workers
        Replays at a time; None: one on each core. The result does not depend on it. A policy with rules that
        are Python functions is replayed by one at a time, as these may keep state.
    progress
        Called about ten times a second with the number of replays done, those under way counted by their
        share, and the number that is likely needed.

    Returns
    -------
    Capacity
        The answer, and the curve of all evaluated loads.

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

    With clients that each wait for their answer, four are served within 2 s:

    >>> from paceline import Concurrency
    >>> queue = paceline.Trace.from_columns(
    ...     arrival=[0] * 100, prompt_tokens=[1] * 100, output_tokens=[1] * 100)
    >>> found = paceline.capacity(
    ...     queue.by(Concurrency(1)), cluster, paceline.policies.vllm(max_num_seqs=1), paceline.SLO(ttft=2.0))
    >>> found.in_flight, found.unit
    (4, 'requests in flight')
    """
    if slo is None:
        raise ConfigError("slo of capacity() must be given, was None: slo=SLO(ttft=2.0, tpot=0.15)")
    criterion = judge_of(slo, target, rule)
    policy = vllm() if policy is None else policy
    traces = [trace] if isinstance(trace, Trace) else list(trace)
    name = " + ".join(dict.fromkeys(each.name for each in traces))
    load = load_of(traces, between, tolerance)
    closed = isinstance(load, InFlight)
    ties = ties_of(traces)
    if not closed:
        warn_of_ties(ties, target, name)
    parts = _windows(traces, windows, closed=closed)
    cut = traces + parts
    skipped = None if closed else [skipped_of(each, warmup_s, "capacity()") for each in cut]
    replays = _Replays(cut, load, cluster, policy, criterion, warmup_s, skipped)
    rounds = Rounds[_Key, Measured](replays.measured, workers=concurrent(policy, workers), report=progress)
    whole = tuple(range(len(traces)))
    cases = [whole, *((index,) for index in range(len(traces), len(cut)))]
    edge, *others = rounds.run([_searched(case, load, tolerance) for case in cases])
    rows = {at: replays.row(at, rounds.of((whole, at))) for at in edge.seen}
    answer = {} if edge.passes is None else rows[edge.passes]
    return Capacity(
        rate=answer.get("rate"),
        in_flight=answer.get("in_flight"),
        fails_at=edge.fails,
        bound=_bound(edge),
        unit=load.unit,
        lowest=load.lowest,
        highest=load.highest,
        crossings=edge.crossings,
        monotone=edge.monotone,
        highest_pass=max((rate for rate, passes in edge.seen.items() if passes), default=None),
        curve=pl.DataFrame(list(rows.values())),
        samples=_samples(parts, others, load),
        slo=slo,
        target=target if isinstance(slo, SLO) else None,
        rule=rule if isinstance(slo, SLO) else None,
        tolerance=tolerance,
        gpus=gpus_of(cluster),
        trace=name,
        own=load.own,
        ties=ties,
        policy=policy.name,
    )


@dataclass(frozen=True, slots=True)
class _Replays:
    """The replays of a search, and how they are judged.

    Attributes
    ----------
    traces
        The traces, and the windows of them.
    skipped
        Of each the first so many requests are not judged; None: with clients, those that are sent before
        ``warmup_s``.
    """

    traces: Sequence[Trace]
    load: Load
    cluster: Cluster
    policy: Policy
    criterion: Judge
    warmup_s: float
    skipped: Sequence[int] | None

    def measured(self, key: _Key, heed: Heed) -> Measured:
        """Replay some of the traces at a load."""
        case, amount = key
        outcomes = []
        for done, index in enumerate(case):
            heard = _share_of(heed, done, len(case))
            result = replayed(self.load.at(self.traces[index], amount), self.cluster, self.policy, heard)
            outcomes.append(self.criterion.sample(result, self._judged(result, index)))
        return self.criterion.judge(outcomes)

    def _judged(self, result: Result, index: int) -> Judged:
        if self.skipped is None:
            return judged_after(result, self.warmup_s)
        return slice(self.skipped[index], None)

    def row(self, amount: float, measured: Measured) -> dict[str, Any]:
        """Return the row of a load on the curve."""
        columns = self.load.columns(amount, measured, gpus_of(self.cluster))
        return {**columns, **self.criterion.row(measured)}


def _windows(traces: Sequence[Trace], windows: int, *, closed: bool) -> list[Trace]:
    """Return the traces to search by themselves: each of several, or windows of each."""
    _check.count("windows", windows)
    if closed and windows != 1:
        raise ConfigError(
            f"windows must be 1 where the trace has clients, was {windows}: give several traces"
        )
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


def _searched(case: tuple[int, ...], load: Load, tolerance: float) -> Search[_Key, Measured, Edge]:
    """Search for the edge of a case."""
    start = min(max(load.own, load.lowest), load.highest)
    return _keyed(case, highest_passing(start, load.lowest, load.highest, tolerance, whole=load.whole))


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


def _samples(parts: Sequence[Trace], edges: Sequence[Edge], load: Load) -> pl.DataFrame | None:
    """Return a row for the capacity of each part."""
    if not parts:
        return None
    name = "in_flight" if load.whole else "rate"
    rows = [
        {
            "sample": index,
            "requests": len(part),
            name: edge.passes,
            "scale": None if edge.passes is None else edge.passes / load.own,
            "bound": _bound(edge),
            "monotone": edge.monotone,
        }
        for index, (part, edge) in enumerate(zip(parts, edges, strict=True))
    ]
    schema = {name: pl.Float64, "scale": pl.Float64, "bound": pl.String}
    return pl.DataFrame(rows, schema_overrides=schema)
