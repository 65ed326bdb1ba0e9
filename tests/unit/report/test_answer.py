"""The first page of a report: its sentence, its cards, runs that are the same, and what made it."""

from __future__ import annotations

import csv
import io
from typing import Any

import polars as pl

import paceline
from paceline.report.answer import answer, deployment, duration, identical
from paceline.report.data.lengths import ENOUGH, by_length
from paceline.report.data.moments import over_time
from paceline.report.data.sampled import sampled
from paceline.report.data.whereabouts import whereabouts
from paceline.report.figure import Table, csv_of
from paceline.report.replayed import runs_of
from paceline.report.sections.groups import groups, worst
from paceline.report.sections.headlines import cards_of_several, headlines
from paceline.report.sections.inputs import inputs_of
from paceline.report.sections.latency import shares_at
from paceline.report.writing import page_of
from unit.report.cases import replayed, run

SLO = paceline.SLO(ttft=0.5, e2e=1.5)


def test_durations_below_a_second_are_milliseconds() -> None:
    assert duration(0.5) == ("500.0", "ms")
    assert duration(2.0) == ("2.000", "s")
    assert duration(0.0) == ("0", "s")


def test_the_answer_names_the_best_run_and_its_share() -> None:
    # Steps take half a second: three tokens take 1.5 s, four take 2.
    runs = runs_of({"short": replayed([0.0, 9.0], [3, 3]), "half": replayed([0.0, 9.0], [3, 4])})
    said = answer(runs, SLO)
    assert said == "short met TTFT ≤ 500 ms and E2E ≤ 1.5 s for 100.0% of the requests; half 50.0%."
    assert [card[:2] for card in cards_of_several(runs, SLO)] == [("short", "100.00%"), ("half", "50.00%")]
    assert answer(runs, None).startswith("short had the shortest TTFT at P99, 500.0 ms; half 500.0 ms")


def test_shares_differ_by_points_and_the_rest_by_per_cent() -> None:
    runs = runs_of({"short": replayed([0.0, 9.0], [3, 3]), "half": replayed([0.0, 9.0], [3, 4])})
    rows = {row[0]: row[1:] for row in headlines(runs, SLO).figures[2].table.rows}
    assert rows["SLO attainment (%)"] == ("100.0", "50.00 (-50.00 points)")
    assert rows["TTFT p99 (ms)"] == ("500.0", "500.0"), "milliseconds, as all are below a second"
    assert rows["E2E p99 (s)"][0] == "1.500"


def test_runs_that_are_the_same_bit_for_bit_are_named() -> None:
    one, other = replayed([0.0, 1.0], [3, 4]), replayed([0.0, 1.0], [3, 5])
    again = replayed([0.0, 1.0], [3, 4])
    (said,) = identical(runs_of({"a": one, "b": other, "c": again}))
    assert said.startswith("a and c are the same, bit for bit")
    assert identical(runs_of({"a": one, "b": other})) == []
    assert said.split(":")[0] in page_of({"a": one, "b": other, "c": again})


def test_a_report_says_what_made_it_and_how_to_repeat_it() -> None:
    cluster = paceline.Cluster([paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")] * 3)
    trace = paceline.Trace.from_columns(
        arrival=[0.0, 1.0, 2.0], prompt_tokens=[9] * 3, output_tokens=[2] * 3, name="three"
    )
    result = paceline.replay(trace, cluster, until=50.0)
    assert deployment(result) == "3 × llama-3.1-8b on h100-sxm"
    inputs = inputs_of(run(result))
    facts = dict(inputs.facts.rows)
    assert facts["Arrival rate (requests/s)"] == "1.000"
    assert "roofline" in facts["Times of steps"]
    assert facts["Reads what no real scheduler knows"] == "no"
    # The page's own Python gives the same requests again.
    again = inputs.repeat.replace("paceline.read_trace('three')", "given")
    again = again.replace('Path("cluster.toml").read_text()', "documents[0]")
    again = again.replace('Path("policy.toml").read_text()', "documents[1]")
    again = again.replace("paceline.replay(", "repeated = paceline.replay(")
    names: dict[str, Any] = {"given": trace, "documents": (inputs.cluster, inputs.policy)}
    exec(again, names)
    assert names["repeated"].requests.equals(result.requests)


def test_small_buckets_have_no_99th_percentile() -> None:
    count = ENOUGH
    result = replayed([10.0 * i for i in range(count + 3)], [2] * count + [9] * 3)
    frame = by_length((run(result),), "e2e", "output_tokens").sort("tokens")
    assert frame["requests"].to_list() == [count, 3]
    assert frame["p99"].to_list() == [1.0, None]


def test_a_table_as_csv_has_plain_numbers() -> None:
    table = Table(("run", "requests", "share, %"), (("a, b", "12,345", "0.5"),))
    assert list(csv.reader(io.StringIO(csv_of(table)))) == [
        ["run", "requests", "share, %"],
        ["a, b", "12345", "0.5"],
    ]
    assert 'href="data:text/csv' in page_of({"a": replayed([0.0], [2])})


def test_groups_are_those_of_the_trace_with_their_own_latencies() -> None:
    trace = paceline.Trace.from_columns(
        arrival=[0.0, 20.0, 40.0], prompt_tokens=[8] * 3, output_tokens=[1, 1, 4], tenant=["x", "x", "y"]
    )
    cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=64)])
    section = groups((run(paceline.replay(trace, cluster)),), SLO)
    assert section is not None
    (figure,) = section.figures
    rows = {row[1]: row for row in figure.table.rows}
    assert (rows["x"][2], rows["y"][2]) == ("2", "1")
    assert (rows["x"][-1], rows["y"][-1]) == ("1.000", "0"), (
        "four tokens take two seconds, more than the bound"
    )
    assert groups((run(replayed([0.0, 1.0], [1, 2])),), None) is None


def test_the_worst_requests_are_listed_with_their_rows() -> None:
    figure = worst(run(replayed([0.0, 9.0, 20.0], [2, 6, 4])))
    assert figure is not None
    e2e = [row[1] for row in figure.table.rows if row[0] == "E2E"]
    assert e2e == ["1", "2", "0"]


def test_the_share_at_a_bound_is_that_of_the_distribution() -> None:
    frame = pl.DataFrame({"run": ["a"] * 3, "share": [0.0, 0.5, 1.0], "seconds": [1.0, 2.0, 4.0]})
    at = shares_at(frame, 3.0, "share")
    assert (at["share"][0], at["label"][0]) == (0.75, "75.00%")
    assert shares_at(frame, 9.0, "share")["share"][0] == 1.0


def test_peaks_within_an_interval_are_kept() -> None:
    # All arrive and finish within the first of two intervals of the replay, but for the last.
    result = replayed([0.0, 0.0, 0.0, 99.0], [1, 1, 1, 2])
    frame = over_time((run(result),), intervals=2)
    assert frame["in_flight"].to_list() == [0, 0]
    assert frame["in_flight_high"].to_list() == [3, 1]
    assert frame["in_flight_low"].to_list() == [0, 0]


def test_sampled_intervals_keep_the_least_and_the_most() -> None:
    result = replayed([i / 4 for i in range(400)], [3] * 400, sample=0.25)
    frame = sampled((run(result),))
    assert frame is not None
    assert frame.height < result.timeline["time_s"].n_unique(), "several samples are in an interval"
    assert frame["running_high"].max() == result.timeline["running"].max()
    assert (frame["running_low"] <= frame["running"]).all()
    assert (frame["running"] <= frame["running_high"]).all()


def test_requests_in_flight_are_running_waiting_or_elsewhere() -> None:
    result = replayed([i / 4 for i in range(60)], [3] * 60, sample=0.5, frontend_s=0.75)
    frame = whereabouts(run(result))
    moments = frame["time_s"].to_numpy()
    arrival, finish = result.column("arrival").to_numpy(), result.column("finish").to_numpy()
    in_flight = [int((arrival <= at).sum() - (finish <= at).sum()) for at in moments]
    assert frame["in_flight"].to_list() == in_flight
    assert frame["elsewhere"].max() == 3, "three arrive in the 0.75 s of the front end"
