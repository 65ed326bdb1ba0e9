"""`paceline.plan`: the fewest GPUs that meet an objective at a rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from paceline._arguments import typed
from paceline._jobs import Heed
from paceline.deployment import Instance
from paceline.errors import ConfigError
from paceline.objectives import SLO, Percentiles
from paceline.planning.alone import misses_alone
from paceline.planning.asking import Asked, Search
from paceline.planning.candidates import Candidates
from paceline.planning.fitting import fitting
from paceline.planning.layouts import Kind, Layouts, kinds_of, layouts_of
from paceline.planning.loads import InFlight
from paceline.planning.measured import Judge, Measured, Rule, judged_after, skipped_of
from paceline.planning.percentiles import judge_of
from paceline.planning.planned import Plan
from paceline.planning.ranges import NEAR, Sizes
from paceline.planning.replays import concurrent, replayed
from paceline.planning.rounds import Rounds
from paceline.planning.sizes import Counts, Smallest, smallest_passing
from paceline.policy import Policy
from paceline.trace import Trace

__all__ = ["plan"]

_Key: TypeAlias = tuple[int, Counts]
_Verdict: TypeAlias = tuple[bool, float]


@typed()
def plan(
    trace: Trace,
    candidates: Candidates | Instance | Sequence[Instance] | Mapping[str, Instance],
    policy: Policy | Callable[..., Policy] | None = None,
    slo: SLO | Percentiles | None = None,
    target: float = 0.90,
    *,
    rate: float | None = None,
    scale: float | None = None,
    rule: Rule = "joint",
    split: Sequence[str] | None = None,
    warmup_s: float = 0.0,
    workers: int | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Plan:
    """Search for the fewest GPUs that meet an objective at a rate, or with clients (`Trace.by`).

    For each kind of instance, the answer is the smallest evaluated number of instances that passes; the two
    numbers below it are evaluated, and fail. Where the policy divides the instances into pools, a number
    passes if one of its divisions does, and fails only after all were replayed.

    Parameters
    ----------
    trace
        The requests.
    candidates
        The kind of instance to count, several kinds, or `Candidates`, which also say how many GPUs there may
        be, what they cost, and how they are linked.
    policy
        A policy for any number of instances (None: vLLM V1's scheduler); or a function that makes one from
        the instances of each pool, as ``lambda prefill, decode: …``, or from their number, as ``lambda
        instances: …``. The names are those of its required parameters; ``prefill`` and ``decode`` may have
        defaults.
    slo
        The bounds, as of `capacity`. Must be given.
    target, rule
        As of `capacity`.
    rate, scale
        The rate, in requests per second or as a multiple of the trace's own; the trace's own if neither is
        given. A trace with clients is replayed as they send it.
    split
        The parameters of ``policy`` that add up to the number of instances, where its signature does not say.
    warmup_s
        Requests that arrive in the first so many seconds, at the rate of the search, are replayed but not
        judged.
    workers, progress
        As of `capacity`.

    Returns
    -------
    Plan
        A row for each kind, and all replays. Of several kinds, those that the model does not fit have no row;
        ``left_out`` names them.

    Raises
    ------
    ConfigError
        If an argument is out of range, or even the smallest cluster has more GPUs than ``most`` of the
        candidates.
    FitError
        If the model fits no kind of instance.
    PacelineError
        As `replay` does.

    Examples
    --------
    Requests of one token at 8 per second, on servers that take 0.5 s for each: four keep up.

    >>> import paceline
    >>> trace = paceline.Trace.from_columns(
    ...     arrival=[i / 8 for i in range(100)], prompt_tokens=[1] * 100, output_tokens=[1] * 100)
    >>> server = paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=9)
    >>> found = paceline.plan(trace, server, paceline.policies.vllm(max_num_seqs=1), paceline.SLO(ttft=0.5))
    >>> found.best["instances"], found.best["attainment"]
    (4, 1.0)
    """
    if slo is None:
        raise ConfigError("slo of plan() must be given, was None: slo=SLO(ttft=2.0, tpot=0.15)")
    criterion = judge_of(slo, target, rule)
    given = candidates if isinstance(candidates, Candidates) else Candidates(candidates)
    load = trace if rate is None and scale is None else trace.at_rate(rate=rate, scale=scale)
    skipped = None if load.clients is not None else skipped_of(load, warmup_s, "plan()")
    layouts = layouts_of(policy, split)
    kinds, left_out = fitting(kinds_of(given.instances, given.prices), layouts)
    replays = _Replays(load, given, kinds, layouts, criterion, warmup_s, skipped)
    sizes = [Sizes(kind, layouts, given.most) for kind in kinds]
    hopeless = tuple(kind.name for kind, each in zip(kinds, sizes, strict=True) if replays.end(kind, each))
    rounds = Rounds[_Key, Measured](replays.measured, workers=concurrent(policy, workers), report=progress)
    found = rounds.run([_keyed(index, smallest_passing(each)) for index, each in enumerate(sizes)])
    evaluated = pl.DataFrame([replays.row(key, rounds.of(key)) for key in rounds.asked()])
    pooled = len(layouts.pools) > 1
    return Plan(
        table=_table(kinds, found, evaluated, priced=given.prices is not None),
        evaluated=evaluated.sort(["kind", "gpus", "split"] if pooled else ["kind", "gpus"]),
        rate=load.rate_per_s,
        scale=1.0 if load is trace else load.rate_per_s / trace.rate_per_s,
        pools=layouts.pools if pooled else (),
        slo=slo,
        target=target if isinstance(slo, SLO) else None,
        rule=rule if isinstance(slo, SLO) else None,
        most=given.most,
        trace=trace.name,
        clients=load.clients,
        hopeless=hopeless,
        left_out=left_out,
    )


@dataclass(frozen=True, slots=True)
class _Replays:
    """The replays of a search, and how they are judged.

    Attributes
    ----------
    load
        The requests, at the rate of the search.
    skipped
        The first so many are not judged; None: with clients, those that are sent before ``warmup_s``.
    """

    load: Trace
    candidates: Candidates
    kinds: Sequence[Kind]
    layouts: Layouts
    criterion: Judge
    warmup_s: float
    skipped: int | None

    def end(self, kind: Kind, sizes: Sizes) -> bool:
        """End the numbers of a kind where more change nothing; return whether all miss the objective."""
        sizes.end_at(len(self.load) * len(self.layouts.pools))
        if self.candidates.most <= NEAR or self.skipped is None:
            return False
        counts = sizes[0][0]
        cluster = self.candidates.cluster(kind.instance, sum(counts))
        policy = self.layouts.policy(counts)
        misses = misses_alone(self.load, cluster, policy, self.criterion, self.skipped)
        if misses:
            sizes.end_at(NEAR // kind.gpus)
        return misses

    def measured(self, key: _Key, heed: Heed) -> Measured:
        """Replay the requests on so many instances of a kind."""
        index, counts = key
        cluster = self.candidates.cluster(self.kinds[index].instance, sum(counts))
        result = replayed(self.load, cluster, self.layouts.policy(counts), heed)
        judged = judged_after(result, self.warmup_s) if self.skipped is None else slice(self.skipped, None)
        return self.criterion.judge([self.criterion.sample(result, judged)])

    def row(self, key: _Key, measured: Measured) -> dict[str, Any]:
        """Return the row of one replay."""
        index, counts = key
        kind, number = self.kinds[index], sum(counts)
        price = {} if kind.price is None else {"price_per_hour": number * kind.price}
        split = {"split": ":".join(map(str, counts))} if len(self.layouts.pools) > 1 else {}
        gpus = number * kind.gpus
        size = {"kind": kind.name, "instances": number, **split, "gpus": gpus, **price}
        clients = self.load.clients
        in_flight = (
            {}
            if clients is None or clients.most is None
            else InFlight.columns_of(clients.most, measured, gpus)
        )
        return {**size, **in_flight, **self.criterion.row(measured)}


def _keyed(index: int, search: Search[Counts, _Verdict, Smallest]) -> Search[_Key, Measured, Smallest]:
    """Ask a search's options of a kind, and answer with verdicts."""
    asked = next(search)
    while True:
        answers = yield Asked(tuple((index, counts) for counts in asked.batch), asked.after)
        try:
            asked = search.send([(measured.passes, measured.margin) for measured in answers])
        except StopIteration as end:
            found: Smallest = end.value
            return found


def _table(
    kinds: Sequence[Kind], found: Sequence[Smallest], evaluated: pl.DataFrame, *, priced: bool
) -> pl.DataFrame:
    """Return a row for each kind: the best option of the fewest instances that pass, else the best of all."""
    rows = []
    for kind, smallest in zip(kinds, found, strict=True):
        own = evaluated.filter(pl.col("kind") == kind.name)
        passing = own.filter("passes")
        if passing.height:
            own = passing.filter(pl.col("instances") == pl.col("instances").min())
        # Of equal margins the most instances; of these the first evaluated, next to the best division before.
        best = own.sort("margin", "instances", descending=True, maintain_order=True).head(1)
        rows.append(best.with_columns(monotone=pl.lit(smallest.monotone)))
    by = ["price_per_hour", "gpus"] if priced else ["gpus"]
    return pl.concat(rows).sort(
        ["passes", *by, "margin"],
        descending=[True, *[False] * len(by), True],
        maintain_order=True,
    )
