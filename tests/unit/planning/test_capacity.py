"""`paceline.capacity` against closed forms, replays done by themselves, and its own promises."""

from __future__ import annotations

import functools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paceline
from paceline import SLO, Affine, Cluster, Instance, Percentiles, Trace, policies
from paceline.errors import ConfigError, RouterStateWarning, TraceError
from paceline.planning import Capacity

SERVICE = 0.5
SERVER = Instance(cost=Affine(step_s=SERVICE, token_s=0.0, kv_token_s=0.0), num_blocks=1001)
ONE_AT_A_TIME = policies.vllm(max_num_seqs=1)


def regular(requests: int, *, every: float = 1.0, **columns: list[int]) -> Trace:
    """Return requests of one token at equal distances."""
    return Trace.from_columns(
        arrival=[every * index for index in range(requests)],
        **{"prompt_tokens": [1] * requests, "output_tokens": [1] * requests, **columns},
    )


def random_trace(seed: int, requests: int = 150) -> Trace:
    """Return requests at random distances, of 1 to 20 output tokens."""
    draw = np.random.default_rng(seed)
    return Trace.from_columns(
        arrival=np.cumsum(draw.exponential(1.0, requests)),
        prompt_tokens=draw.integers(1, 200, requests),
        output_tokens=draw.integers(1, 20, requests),
    )


@settings(max_examples=settings.default.max_examples // 2)
@given(
    requests=st.integers(20, 200),
    bound=st.floats(0.6, 20.0),
    share=st.sampled_from([0.5, 0.9, 0.99, 1.0]),
    rule=st.sampled_from(["joint", "marginal"]),
)
def test_one_server_with_regular_arrivals_has_the_capacity_of_the_closed_form(
    requests: int, bound: float, share: float, rule: str
) -> None:
    # Request i of 0, 1, … arrives at i / r and leaves at (i + 1) s while the server is busy: its latency is
    # s + i (s - 1 / r). It grows with i, so the request at the target decides (for a percentile, a place
    # between two requests). It meets the bound up to r = 1 / (s - (bound - s) / i).
    decisive = math.ceil(share * requests - 1e-9) - 1 if rule == "joint" else share * (requests - 1)
    rest = SERVICE - (bound - SERVICE) / decisive
    found = paceline.capacity(
        regular(requests), Cluster([SERVER]), ONE_AT_A_TIME, SLO(ttft=bound), share, rule=rule
    )  # type: ignore[call-overload,unused-ignore]
    if rest <= 1 / 1024:  # the backlog of the whole trace is within the bound, or the limit comes first
        assert found.bound == "above" or rest > 0
        return
    exact = 1 / rest
    assert found.rate is not None
    assert found.fails_at is not None
    assert found.rate <= exact * (1 + 1e-9)
    assert found.fails_at >= exact * (1 - 1e-9)
    assert found.fails_at <= found.rate * 1.01
    assert found.monotone
    assert found.gpu_rate == found.rate
    assert found.scale == pytest.approx(found.rate)


def test_the_marginal_rule_passes_where_different_requests_miss_different_bounds() -> None:
    # Alone on the server, 8 requests of 100 take 2 s to their first token, and 8 others 1.5 s a token. So 84%
    # are within both bounds, and 92% within each.
    cost = Affine(step_s=1.0, token_s=0.001, kv_token_s=0.001)
    server = Instance(cost=cost, num_blocks=1001)
    long_prompts = [1000 if index % 12 == 0 and index < 96 else 1 for index in range(100)]
    long_outputs = [1001 if index % 12 == 6 and index < 96 else 1 for index in range(100)]
    trace = regular(100, prompt_tokens=long_prompts, output_tokens=long_outputs)
    slo, slow = SLO(ttft=1.5, tpot=1.25), {"between": (1e-4, 2e-4)}
    joint = paceline.capacity(trace, Cluster([server]), None, slo, **slow)
    marginal = paceline.capacity(trace, Cluster([server]), None, slo, rule="marginal", **slow)
    assert set(joint.curve["attainment"]) == set(marginal.curve["attainment"]) == {0.84}
    assert (joint.bound, marginal.bound) == ("below", "above")
    assert joint.curve["margin"].to_list() == pytest.approx([0.84 - 0.9] * joint.curve.height)
    strict = paceline.capacity(trace, Cluster([server]), None, slo, 0.93, rule="marginal", **slow)
    assert strict.bound == "below"


def test_percentiles_are_over_all_requests_and_over_all_tokens() -> None:
    # Nine requests of two tokens and one of 91, one at a time on a server whose steps take 0.5 s: each gap is
    # 0.5 s. At a rate of 1/100 none waits; all at once, request i waits for those before it: 1 s each, so
    # that the median of 0, 1, … 9 s is 4.5 s.
    trace = Trace.from_columns(
        arrival=[100.0 * index for index in range(10)], prompt_tokens=[1] * 10, output_tokens=[2] * 9 + [91]
    )
    bounds = Percentiles(tbt={99: 0.51}, queueing={50: 4.6})
    found = paceline.capacity(trace, Cluster([SERVER]), ONE_AT_A_TIME, bounds, between=(None, 1e3))
    assert (found.bound, found.target, found.rule) == ("above", None, None)
    row = found.curve.row(-1, named=True)
    assert row["p50_queueing"] == pytest.approx(4.5, rel=1e-2)
    assert row["p99_tbt"] == pytest.approx(0.5, rel=1 / 256)
    assert row["margin"] == pytest.approx(1 - row["p99_tbt"] / 0.51)
    strict = paceline.capacity(
        trace, Cluster([SERVER]), ONE_AT_A_TIME, Percentiles(queueing={50: 4.4}), between=(None, 1e3)
    )
    assert strict.bound is None
    assert strict.fails_at is not None
    assert json.loads(found.to_json())["slo"] == {"p50_queueing": 4.6, "p99_tbt": 0.51}
    assert set(found.plot_frame().filter(quantity="p99_tbt")["limit"]) == {0.51}


def test_gaps_of_requests_that_are_rejected_are_infinite() -> None:
    # The second request is rejected, and its one gap is half of all: the P50 is of the gap that came,
    # the P51 is not.
    trace = Trace.from_columns(arrival=[0.0, 1.0], prompt_tokens=[1, 2000], output_tokens=[2, 2])
    low = {"cluster": Cluster([Instance(cost=Affine(step_s=SERVICE), num_blocks=9)]), "between": (1.0, 1.0)}
    for at, passes in ((50, True), (51, False)):
        found = paceline.capacity(trace, slo=Percentiles(tbt={at: 1.0}), **low)  # type: ignore[arg-type]
        assert found.curve["passes"].to_list() == [passes]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"target": 0.5}, "left out"),
        ({"rule": "marginal"}, "left out"),
        ({"warmup_s": 50.0}, "warmup_s must be 0"),
    ],
)
def test_percentiles_over_tokens_take_no_target_rule_or_warm_up(more: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        paceline.capacity(regular(100), Cluster([SERVER]), None, Percentiles(tbt={99: 1.0}), **more)  # type: ignore[arg-type]


def test_the_marginal_rule_is_strict_and_the_joint_rule_is_not() -> None:
    # Every latency is exactly the bound.
    slo, slow = SLO(ttft=SERVICE), {"between": (0.1, 1.0)}
    joint = paceline.capacity(regular(20), Cluster([SERVER]), None, slo, **slow)
    marginal = paceline.capacity(regular(20), Cluster([SERVER]), None, slo, rule="marginal", **slow)
    assert (joint.bound, marginal.bound) == ("above", "below")
    assert set(marginal.curve["margin"]) == {0.0}


def test_every_row_of_the_curve_is_a_replay_at_that_rate() -> None:
    trace, cluster, slo = random_trace(1), Cluster(2 * [SERVER]), SLO(ttft=2.0, tpot=0.6, e2e=12.0)
    found = paceline.capacity(trace, cluster, None, slo, 0.8)
    assert found.curve["rate"].is_sorted()
    for row in found.curve.rows(named=True):
        result = paceline.replay(trace.at_rate(rate=row["rate"]), cluster)
        assert row["attainment"] == result.attainment(slo)
        for metric in ("ttft", "tpot", "e2e"):
            values = result.requests[metric].fill_null(0.0).to_numpy()
            assert row[f"p80_{metric}"] == np.quantile(values, 0.8)
        assert row["gpu_rate"] == row["rate"] / 2
        assert row["scale"] == row["rate"] / trace.rate_per_s
    below = found.curve.filter(found.curve["rate"] <= found.rate)
    assert below["passes"].all()
    assert found.fails_at == found.curve.filter(~found.curve["passes"])["rate"][0]


def test_rejected_requests_are_missed_under_both_rules() -> None:
    # One prompt in five is longer than the 16,000 tokens of the cache, and is rejected.
    trace = regular(100, prompt_tokens=[20_000 if index % 5 == 0 else 1 for index in range(100)])
    slo = SLO(ttft=1e6)
    for rule in ("joint", "marginal"):
        at_most = {"between": (0.5, 4.0)}
        missed = paceline.capacity(trace, Cluster([SERVER]), None, slo, 0.81, rule=rule, **at_most)
        assert (missed.rate, missed.bound, missed.gpu_rate) == (None, "below", None)
        assert set(missed.curve["attainment"]) == {0.8}
        assert set(missed.curve["p81_ttft"]) == {math.inf}
        assert set(missed.curve["rejected"]) == {20}
        assert json.loads(missed.to_json())["curve"][0]["p81_ttft"] is None
        met = paceline.capacity(trace, Cluster([SERVER]), None, slo, 0.79, rule=rule, **at_most)
        assert (met.rate, met.bound) == (4.0, "above")


def test_the_result_does_not_depend_on_the_number_of_threads() -> None:
    def found(workers: int) -> Capacity:
        return paceline.capacity(
            random_trace(2, 60), Cluster([SERVER]), None, SLO(ttft=2.0), windows=2, workers=workers
        )

    one = found(1)
    for workers in (2, 5):
        assert found(workers) == one
        assert found(workers).to_json() == one.to_json()


def test_several_traces_are_judged_together_and_each_by_itself() -> None:
    traces = [random_trace(seed, 80) for seed in range(3)]
    cluster, slo = Cluster([SERVER]), SLO(ttft=2.0)
    found = paceline.capacity(traces, cluster, None, slo)
    own = sum(len(trace) - 1 for trace in traces) / sum(trace.span_s for trace in traces)
    assert found.own_rate == own
    for row in found.curve.rows(named=True)[::5]:
        met = sum(
            int(paceline.replay(trace.stretched(own / row["rate"]), cluster).met(slo).sum())
            for trace in traces
        )
        assert row["attainment"] == met / 240
    assert found.samples is not None
    for row, trace in zip(found.samples.rows(named=True), traces, strict=True):
        # Of one trace alone other rates are evaluated; where the curve is monotone the tolerance bounds both.
        alone = paceline.capacity(trace, cluster, None, slo)
        assert alone.rate is not None
        if row["monotone"] and alone.monotone:
            assert row["scale"] == pytest.approx(alone.rate / trace.rate_per_s, rel=0.011)
    assert found.band == (found.samples["rate"].min(), found.samples["rate"].max())


def test_windows_are_cut_at_equal_times_and_keep_every_request() -> None:
    trace = random_trace(5)
    found = paceline.capacity(trace, Cluster([SERVER]), None, SLO(ttft=2.0), windows=4)
    assert found.samples is not None
    assert found.samples["requests"].sum() == len(trace)
    arrivals = trace.frame["arrival"].to_numpy()
    edges = np.linspace(arrivals[0], arrivals[-1], 5)
    assert found.samples["requests"].to_list() == np.histogram(arrivals, edges)[0].tolist()
    # The main answer is that of the whole trace.
    whole = paceline.capacity(trace, Cluster([SERVER]), None, SLO(ttft=2.0))
    assert (found.rate, found.curve.rows()) == (whole.rate, whole.curve.rows())
    assert whole.samples is None
    assert whole.band is None


def test_a_limit_beyond_which_all_passes_is_said_and_the_band_counts_it_as_infinite() -> None:
    traces = [regular(30), regular(30)]
    found = paceline.capacity(traces, Cluster([SERVER]), None, SLO(ttft=1e6), between=(None, 8.0))
    assert (found.rate, found.fails_at, found.bound, found.highest) == (8.0, None, "above", 8.0)
    assert found.band == (math.inf, math.inf)
    assert repr(found) == "Capacity(above 8 requests/s)"
    assert json.loads(found.to_json())["band"] == [None, None]


def test_the_frame_for_plots_has_a_row_for_each_rate_and_quantity_with_its_limit() -> None:
    found = paceline.capacity(random_trace(1), Cluster([SERVER]), None, SLO(ttft=2.0))
    frame = found.plot_frame()
    assert frame.height == 3 * found.curve.height
    limits = dict(frame.select("quantity", "limit").unique().rows())
    assert limits == {"attainment": 0.9, "p90_ttft": 2.0, "p90_tpot": None}
    values = frame.filter(frame["quantity"] == "p90_ttft")["value"]
    assert values.to_list() == found.curve["p90_ttft"].to_list()


def test_progress_ends_with_all_replays_done() -> None:
    reports: list[tuple[float, float]] = []
    found = paceline.capacity(
        regular(50),
        Cluster([SERVER]),
        ONE_AT_A_TIME,
        SLO(ttft=1.0),
        progress=lambda done, total: reports.append((done, total)),
    )
    done, total = reports[-1]
    assert done == total == found.curve.height


def test_a_failed_replay_raises_its_own_error() -> None:
    with pytest.raises(paceline.PolicyError, match="column score"):
        paceline.capacity(regular(5), Cluster([SERVER]), policies.vllm_ltr(), SLO(ttft=1.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"slo": None}, "slo of capacity() must be given"),
        ({"target": 0.0}, "target must be a number above 0 and at most 1, was 0"),
        ({"target": 90}, "target must be a number above 0 and at most 1, was 90"),
        ({"rule": "median"}, "rule of capacity() must be one of joint, marginal, was 'median'"),
        ({"tolerance": 0.0}, "tolerance must be from 1e-06 to 0.5, was 0"),
        ({"between": (-1.0, None)}, "lowest rate of capacity() must be a finite number above 0"),
        ({"between": (2.0, 1.0)}, r"between must begin with the lower rate, was (2.0, 1.0)"),
        ({"between": (1e-9, None)}, "between must begin at"),
        ({"windows": 0}, "windows must be a whole number of at least 1, was 0"),
        ({"windows": 40}, "windows must leave requests in each"),
        ({"workers": 0}, "workers must be 1 or more, was 0"),
        ({"trace": []}, "at least one, was an empty list"),
    ],
)
def test_arguments_out_of_range_are_refused_by_name(arguments: dict[str, object], message: str) -> None:
    usual = {"trace": regular(20), "cluster": Cluster([SERVER]), "slo": SLO(ttft=1.0)}
    with pytest.raises(ConfigError) as refused:
        paceline.capacity(**{**usual, **arguments})  # type: ignore[arg-type]
    assert message in str(refused.value)


def test_a_trace_without_a_rate_is_refused() -> None:
    with pytest.raises((ConfigError, TraceError), match="its requests arrive at one"):
        paceline.capacity(regular(3, every=0.0), Cluster([SERVER]), None, SLO(ttft=1.0))


def test_results_are_frozen_and_compare_by_content() -> None:
    found = paceline.capacity(regular(10), Cluster([SERVER]), None, SLO(ttft=1.0), between=(None, 4.0))
    assert isinstance(found, Capacity)
    with pytest.raises(AttributeError):
        found.rate = 2.0  # type: ignore[misc]
    assert found != 2.0


def test_python_rules_are_called_by_one_replay_at_a_time() -> None:
    inside, most = 0, 0

    def router(request: object, instances: list[object]) -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        inside -= 1
        return 0

    policy = paceline.Policy(name="mine", on_arrival=router)
    ours = functools.partial(paceline.capacity, regular(20), Cluster([SERVER]), policy, SLO(ttft=1.0))
    with pytest.warns(RouterStateWarning, match="router starts with state that an earlier replay changed"):
        found = ours(between=(None, 4.0), workers=4)
    assert most == 1
    plain = paceline.capacity(regular(20), Cluster([SERVER]), None, SLO(ttft=1.0), between=(None, 4.0))
    assert found.curve.equals(plain.curve)
