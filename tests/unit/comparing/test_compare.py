"""`paceline.compare`: pairs, intervals, warm-up and refusals, on servers whose latencies are known."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import paceline
from paceline import SLO, Affine, Cluster, ConfigError, Instance, Policy, Trace, policies
from paceline.result import Result

ONE = Cluster([Instance(cost=Affine(step_s=0.5), num_blocks=1000)])
FAST, SLOW = policies.vllm(), policies.vllm(max_num_seqs=1)


def pairs_of_arrivals(number: int, *, output: int = 1) -> Trace:
    """Return requests that arrive two at a time, every ten seconds."""
    return Trace.from_columns(
        arrival=[10.0 * (index // 2) for index in range(number)],
        prompt_tokens=[8] * number,
        output_tokens=[output] * number,
    )


def row(found: paceline.Comparison, policy: str, metric: str, figure: str) -> dict[str, object]:
    """Return a row of the table."""
    (only,) = found.table.filter(policy=policy, metric=metric, figure=figure).rows(named=True)
    return only


def test_differences_are_of_the_same_requests() -> None:
    # Together both have their token after 0.5 s; one after the other after 0.5 and 1 s.
    found = paceline.compare(pairs_of_arrivals(40), ONE, {"fast": FAST, "slow": SLOW}, slo=SLO(ttft=0.75))
    slow = row(found, "slow", "ttft", "mean")
    assert slow["value"] == pytest.approx(0.75)
    assert slow["difference"] == pytest.approx(0.25)
    assert slow["ratio"] == pytest.approx(1.5)
    assert slow["pairs"] == slow["count"] == 40
    # Half the requests wait longer, half as long: ties count half.
    assert slow["better"] == 0.25
    attained = row(found, "slow", "attainment", "share")
    assert (attained["value"], attained["difference"], attained["better"]) == (0.5, -0.5, 0.25)
    assert row(found, "fast", "ttft", "mean")["difference"] is None
    # Blocks hold whole pairs or halves of them, so the drawn share of slow requests varies around a half.
    assert 0.2 < slow["difference_low"] <= 0.25 <= slow["difference_high"] < 0.3  # type: ignore[operator]
    assert found.method == "bootstrap over 10 blocks of consecutive requests, 1000 draws"


def test_pairs_leave_out_requests_without_the_metric_under_either_policy() -> None:
    trace = Trace.from_columns(arrival=[0, 10, 20], prompt_tokens=[8, 300, 8], output_tokens=[2, 2, 2])
    small = policies.vllm(max_num_batched_tokens=256, max_num_seqs=8)
    strict = Policy(
        name="strict",
        scheduler=small.scheduler,
        on_arrival=paceline.policy.first_of(
            paceline.policy.pick(min=paceline.inst.requests, where=paceline.req.prompt_tokens < 100),
            paceline.policy.reject(),
        ),
    )
    found = paceline.compare(trace, ONE, {"all": small, "strict": strict})
    kept = row(found, "strict", "ttft", "mean")
    assert (kept["count"], kept["pairs"]) == (2, 2)
    assert kept["difference"] == 0  # the rejected one took two steps, and is in no pair
    assert row(found, "all", "ttft", "mean")["count"] == 3
    assert row(found, "strict", "finished", "share")["value"] == pytest.approx(2 / 3)
    assert found.paired("ttft")["strict"].null_count() == 1


def test_several_traces_are_replications_with_students_t() -> None:
    from scipy import stats  # to import it takes seconds

    traces = [paceline.synthesize("azure-conv", requests=200, rate=20.0, seed=seed) for seed in range(4)]
    cluster = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    chosen = {"vllm": policies.vllm(), "sarathi": policies.sarathi()}
    found = paceline.compare(traces, cluster, chosen, warmup_s=2.0)

    def p99(result: Result) -> float:
        judged = result.requests.filter(pl.col("arrival") >= 2.0)["ttft"].drop_nulls()
        return float(np.quantile(judged.to_numpy(), 0.99))

    ours, theirs = (
        np.array([p99(paceline.replay(trace, cluster, chosen[name])) for trace in traces])
        for name in ("sarathi", "vllm")
    )
    expected = stats.t.interval(0.95, df=3, loc=ours.mean(), scale=stats.sem(ours))
    paired = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    shown = row(found, "sarathi", "ttft", "p99")
    assert (shown["value"], shown["low"], shown["high"]) == pytest.approx((ours.mean(), *expected))
    assert (shown["difference_low"], shown["difference_high"]) == pytest.approx((paired.low, paired.high))
    assert found.method == "Student's t over 4 traces"
    early = [int((trace.frame["arrival"] < 2.0).sum()) for trace in traces]
    assert found.warmup_requests == tuple(early)
    assert found.requests == tuple(200 - number for number in early)
    assert found.paired("e2e").height == 800 - sum(early)


def test_the_warm_up_is_replayed_and_not_judged() -> None:
    # The first two requests arrive together; the others alone.
    trace = Trace.from_columns(arrival=[0, 0, 10, 20, 30], prompt_tokens=[8] * 5, output_tokens=[1] * 5)
    found = paceline.compare(trace, ONE, {"fast": FAST, "slow": SLOW}, warmup_s=10)
    assert (found.warmup_requests, found.requests) == ((2,), (3,))
    assert row(found, "slow", "ttft", "mean")["difference"] == 0
    assert len(found.results["slow"][0]) == 5


def test_the_number_of_threads_changes_nothing() -> None:
    trace = pairs_of_arrivals(60, output=5)
    one, four = (
        paceline.compare(trace, ONE, {"a": FAST, "b": SLOW, "c": policies.sarathi()}, workers=workers)
        for workers in (1, 4)
    )
    assert one.table.equals(four.table)
    assert one.results["c"] == four.results["c"]


def test_the_baseline_can_be_named() -> None:
    found = paceline.compare(pairs_of_arrivals(20), ONE, {"fast": FAST, "slow": SLOW}, baseline="slow")
    assert row(found, "fast", "ttft", "mean")["ratio"] == pytest.approx(2 / 3)
    assert repr(found).startswith("Comparison(fast against slow, 20 requests, bootstrap over")


def test_progress_counts_replays() -> None:
    seen: list[tuple[float, float]] = []
    paceline.compare(
        pairs_of_arrivals(2000, output=50),
        ONE,
        {"fast": FAST, "slow": SLOW},
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (2, 2)
    assert all(0 <= done <= total == 2 for done, total in seen)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policies": {"one": FAST}}, "two or more"),
        ({"baseline": "none"}, "fast, slow, was 'none'"),
        ({"warmup_s": 1000.0}, "before the last arrival"),
        ({"warmup_s": -1.0}, "0 or more"),
        ({"confidence": 1.0}, "below 1, was 1.0"),
        ({"draws": 1}, "at least 2"),
        ({"trace": []}, "empty list"),
        ({"policies": {"one": FAST, "two": 2}}, "Policy"),
    ],
)
def test_arguments_out_of_range_are_refused(changes: dict[str, object], said: str) -> None:
    arguments = {"trace": pairs_of_arrivals(4), "cluster": ONE, "policies": {"fast": FAST, "slow": SLOW}}
    with pytest.raises(ConfigError, match=said):
        paceline.compare(**(arguments | changes))  # type: ignore[arg-type]


def test_a_failed_replay_is_raised() -> None:
    needs_scores = policies.pars()
    with pytest.raises(paceline.PolicyError, match="score"):
        paceline.compare(pairs_of_arrivals(4), ONE, {"fast": FAST, "ranked": needs_scores})


def test_to_dict_is_json() -> None:
    import json

    found = paceline.compare(pairs_of_arrivals(10), ONE, {"fast": FAST, "slow": SLOW})
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["table"] == found.table.rows(named=True)
    assert document["requests"] == [10]
