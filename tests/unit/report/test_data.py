"""The numbers behind the pictures, on replays whose latencies are known in closed form."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import paceline
from paceline import SLO
from paceline.report.data.balance import imbalance, of_instances
from paceline.report.data.distributions import distributions, histogram, quantiles
from paceline.report.data.lengths import by_length
from paceline.report.data.moments import over_time, percentiles_over_time
from paceline.report.data.objectives import attainment_by_bound, attainment_by_scale, attainment_over_time
from paceline.report.data.parts import PARTS, parts_by_band
from paceline.report.data.sampled import MOST_TENANTS, sampled, tenants
from paceline.report.data.utilisation import utilisation
from unit.report.cases import Sampled, replayed, run

# Steps of half a second, all requests at once: TTFT 0.5 s, E2E half a second for each output token.
TOGETHER = replayed([0.0] * 4, [2, 4, 6, 8])


def test_quantiles_interpolate_linearly() -> None:
    # E2E 1, 2, 3 and 4 s.
    found = quantiles(TOGETHER, "e2e", np.array([0.0, 0.5, 0.75, 1.0]))
    assert found is not None
    assert found.tolist() == pytest.approx([1.0, 2.5, 3.25, 4.0])


def test_a_distribution_has_no_share_finer_than_a_request() -> None:
    frame = distributions((run(TOGETHER),), "e2e")
    above = frame.filter(pl.col("above") > 0)["above"].min()
    assert above == pytest.approx(0.25)
    assert frame["seconds"].to_list() == sorted(frame["seconds"].to_list())
    assert frame["seconds"][-1] == 4.0


def test_the_gaps_of_itl_are_those_of_the_sketch() -> None:
    frame = distributions((run(TOGETHER),), "itl")
    assert frame["seconds"].to_list() == pytest.approx([0.5] * frame.height, rel=0.01)


def test_a_latency_that_no_request_has_gives_no_rows() -> None:
    assert distributions((run(replayed([0.0], [1])),), "tpot").is_empty()


def test_a_histogram_counts_every_request_once() -> None:
    series = pl.Series([0.0, 0.1, 0.2, 5.0, 1e9])
    counts = histogram(series, 10)
    assert counts["requests"].sum() == len(series)


def test_buckets_of_lengths_double() -> None:
    result = replayed([0.0, 10.0, 20.0, 30.0], [1, 2, 3, 4], prompt=[1, 2, 3, 4])
    frame = by_length((run(result),), "e2e", "output_tokens")
    assert frame.select("tokens", "up_to", "requests").rows() == [(1, 1, 1), (2, 3, 2), (4, 7, 1)]
    # Alone, a request takes half a second a token: the bucket of 2 and 3 tokens has 1.0 and 1.5 s.
    assert frame["p50"].to_list() == pytest.approx([0.5, 1.25, 2.0])


def test_parts_add_up_to_the_latency_in_every_band() -> None:
    result = replayed([0.0] * 300, list(range(1, 301)))
    frame = parts_by_band((run(result),))
    totals = frame.group_by("band", maintain_order=True).agg(
        pl.col("seconds", "share").sum(), pl.col("requests").first()
    )
    assert totals["share"].to_list() == pytest.approx([1.0] * 5)
    assert totals.filter(band="all")["seconds"].item() == pytest.approx(result.column("e2e").mean())
    assert totals["requests"].to_list() == [300, 150, 120, 27, 3]
    assert frame["part"].unique(maintain_order=True).to_list() == list(PARTS)


class Columns:
    """A result of one request, of its columns only."""

    def __init__(self, **values: float | None) -> None:
        self._values = values

    def column(self, name: str) -> pl.Series:
        return pl.Series(name, [self._values[name]], dtype=pl.Float64)


def test_prefill_and_its_stalls_are_told_apart() -> None:
    # It waits 1 s, computes its prompt for 2 of the next 7 s, in 3 of which it is preempted, then decodes for
    # 4 s and is preempted for 6.
    times = {"e2e": 18.0, "scheduled": 11.0, "first_token": 18.0, "blocked": 1.0}
    parts = {"executed": 8.0, "preempted": 9.0, "blocking": None, "transfer": 0.0}
    columns = Columns(**times, **parts, prefill_stall=5.0, interrupted_prefill=3.0)
    frame = parts_by_band((run(columns),)).filter(band="all")
    assert dict(frame.select("part", "seconds").rows()) == {
        "queued": 1.0,
        "prefill": 2.0,
        "stalled in prefill": 2.0,
        "decode": 4.0,
        "preempted": 9.0,
        "blocked": 0.0,
        "in transfer": 0.0,
    }


def test_the_use_of_peaks_is_that_of_the_counters() -> None:
    cluster = paceline.Cluster(
        [paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm", tensor_parallel=2)] * 2
    )
    trace = paceline.Trace.from_columns(arrival=[0.0, 5.0], prompt_tokens=[512, 512], output_tokens=[8, 8])
    result = paceline.replay(trace, cluster)
    row = utilisation((run(result),)).row(0, named=True)
    busy = sum(of.busy_ticks for of in result.stats.instances) / 1e12
    flops = sum(of.traffic.flops for of in result.stats.instances if of.traffic is not None)
    peak = paceline.Gpu.load("h100-sxm").bf16_flop_per_s
    end = result.stats.end_ticks / 1e12
    assert (row["gpus"], row["busy"]) == (4, pytest.approx(2 * busy / (4 * end)))
    assert row["mfu"] == pytest.approx(flops / (2 * busy * peak))
    assert row["mfu_on"] == pytest.approx(row["mfu"] * row["busy"])
    assert row["bandwidth_on"] == pytest.approx(row["bandwidth"] * row["busy"])
    assert 0 < row["bandwidth"] < 1


def test_there_is_no_use_of_peaks_without_a_known_gpu() -> None:
    assert utilisation((run(replayed([0.0], [2])),)).height == 0


def test_counts_over_time_are_those_of_a_count_by_hand() -> None:
    # One at 0 with 4 tokens (ends at 2 s) and one at 1 with 6 (starts at 1, ends at 4 s).
    frame = over_time((run(replayed([0.0, 1.0], [4, 6])),), intervals=8)
    assert frame["time_s"].to_list() == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    # An interval holds its lower edge: an arrival or an end at an edge belongs to the next interval.
    assert frame["arrivals"].to_list() == [2.0, 0, 2.0, 0, 0, 0, 0, 0]
    assert frame["in_flight"].to_list() == [1, 1, 2, 2, 1, 1, 1, 0]
    assert frame["finished"].to_list() == [0, 0, 0, 0, 2.0, 0, 0, 2.0]
    assert frame["tokens"].sum() * 0.5 == 10


def test_waiting_requests_are_those_before_their_first_step() -> None:
    # A request that arrives within a step waits for its end.
    frame = over_time((run(replayed([0.0, 0.1], [2, 2])),), intervals=6)
    assert frame["waiting"].max() == 1
    assert frame["waiting"][-1] == 0


def test_rejected_requests_do_not_stay_in_flight() -> None:
    # 64 blocks of 16 tokens hold 1,024 tokens.
    frame = over_time((run(replayed([0.0, 0.0], [2, 5000])),), intervals=4)
    assert frame["in_flight"][-1] == 0


def test_an_interval_without_arrivals_breaks_the_line() -> None:
    frame = percentiles_over_time((run(replayed([0.0, 10.0], [1, 1])),), "ttft", intervals=10)
    assert frame["requests"].to_list() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert frame["p50"].null_count() == 8


def test_attainment_agrees_with_the_results() -> None:
    slo = SLO(ttft=0.6, e2e=2.5)
    rows = attainment_by_bound((run(TOGETHER),), slo)
    assert rows["attainment"].to_list() == [0.5, 1.0, 0.5]
    assert rows["goodput"].to_list() == [0.5, 1.0, 0.5]


@pytest.mark.parametrize("bounds", [{"ttft": 0.6, "e2e": 2.5}, {"tpot": 0.4}, {"itl": 0.5, "e2e": 3.0}])
def test_scaled_bounds_give_what_an_slo_of_such_bounds_gives(bounds: dict[str, float]) -> None:
    frame = attainment_by_scale((run(TOGETHER),), SLO(**bounds))
    for scale, attainment in frame.select("scale", "attainment").rows():
        scaled = SLO(**{name: bound * scale for name, bound in bounds.items()})
        assert attainment == TOGETHER.attainment(scaled)


def test_attainment_over_time_weighs_up_to_the_whole() -> None:
    result = replayed([0.0, 1.0, 2.0, 3.0], [1, 9, 1, 9])
    slo = SLO(e2e=1.0)
    frame = attainment_over_time((run(result),), slo).drop_nulls()
    met = (frame["attainment"] * frame["requests"]).sum()
    assert met / frame["requests"].sum() == pytest.approx(result.attainment(slo))


def test_balance_of_one_instance_is_perfect_and_of_two_is_not() -> None:
    alone = imbalance(of_instances((run(TOGETHER),)))
    assert set(alone["most_over_mean"].drop_nulls()) == {1.0}
    # Two instances and one request: one of them does everything.
    idle = imbalance(of_instances((run(replayed([0.0], [4], instances=2)),)))
    assert idle.filter(figure="Requests finished")["most_over_mean"].item() == 2.0
    assert idle.filter(figure="Requests finished")["variation"].item() == 1.0


def test_samples_are_added_up_over_instances() -> None:
    frame = sampled((run(Sampled(TOGETHER)),))
    assert frame is not None
    # Instance i has 10 t + i running, i waiting and 1 swapped, 10 t + 40 i of 100 blocks, and 5 J a second.
    assert frame["running"].to_list() == [21, 41, 61]
    assert frame["waiting"].to_list() == [3, 3, 3]
    assert frame["kv_use"].to_list() == pytest.approx([0.3, 0.4, 0.5])
    assert frame["kv_use_most"].to_list() == pytest.approx([0.5, 0.6, 0.7])
    assert frame["power_w"].to_list() == [10.0] * 3
    assert sampled((run(TOGETHER),)) is None


def test_the_largest_tenants_are_shown_and_the_others_added_up() -> None:
    names: list[str | None] = [f"t{place}" for place in range(MOST_TENANTS + 2)]
    names[0] = None
    frame = tenants(run(Sampled(TOGETHER, names)))
    assert frame is not None
    shown = frame["tenant"].unique(maintain_order=True).to_list()
    assert shown == ["(no tenant)", *names[1:MOST_TENANTS], "2 others"]
    # The last two have 2 and 1 arrivals a second.
    assert frame.filter(tenant="2 others")["arrivals"].to_list() == [3.0] * 3
    assert tenants(run(Sampled(TOGETHER))) is None
