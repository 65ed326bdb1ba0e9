"""The study's pages on requests made by hand: what they compute, not what a replay would give."""

from __future__ import annotations

from typing import Literal

import polars as pl
import pytest

from paceline.study.pascal.characterization import PhaseTrace, bisected, split
from paceline.study.pascal.comparison import summary
from paceline.study.pascal.requests import (
    described,
    end_to_end,
    p99,
    throughput,
    violations,
    with_paper_metrics,
)
from paceline.trace import Trace


def test_the_papers_ttft_is_to_the_first_token_of_the_answer() -> None:
    trace = Trace.from_columns(
        arrival=[0.0, 1.0, 2.0],
        prompt_tokens=[5, 5, 5],
        output_tokens=[10, 8, 4],
        reasoning_tokens=[7, 8, 1],
    )
    replayed = pl.DataFrame(
        {
            "arrival": [0.0, 1.0, 2.0],
            "output_tokens": [10, 8, 4],
            "ttft": [0.5, 0.5, 0.5],
            "reasoning_end": [3.0, 5.0, 9.0],
            "first_answer": [4.0, None, 9.5],
            "finish": [6.0, 5.0, None],
            "qoe_answering": [0.94, None, 0.95],
        }
    )
    # The last is unfinished; the second reasons to its end and answers nothing.
    found = with_paper_metrics(trace, replayed)
    assert found["ttft"].to_list() == [4.0, None]
    assert found["reasoning"].to_list() == [3.0, 4.0]
    assert found["answer_tokens"].to_list() == [3, 0]
    assert found["violated"].to_list() == [True, None]
    # Of those that answered.
    assert violations(found) == 1.0
    assert throughput(found) == 18 / 6.0


def test_a_qoe_of_exactly_0_95_is_no_violation() -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[5], output_tokens=[4], reasoning_tokens=[1])
    columns = {"arrival": [0.0], "output_tokens": [4], "reasoning_end": [1.0], "first_answer": [2.0]}
    replayed = pl.DataFrame({**columns, "finish": [3.0], "qoe_answering": [0.95]})
    assert violations(with_paper_metrics(trace, replayed)) == 0.0


def test_p99_leaves_out_what_did_not_happen() -> None:
    assert p99(pl.Series([None, 4.0, None])) == 4.0
    assert p99(pl.Series([], dtype=pl.Float64)) == 0.0
    blocking = pl.DataFrame({"blocking": [float(i) for i in range(101)]})
    assert described(blocking, "P99 blocking (s)") == {"P99 blocking (s)": 99.0}


def test_end_to_end_latency_has_its_mean_median_and_tails() -> None:
    found = end_to_end(pl.DataFrame({"e2e": [float(i) for i in range(101)]}))
    assert found == {"mean": 50.0, "P50": 50.0, "P90": 90.0, "P95": 95.0, "P99": 99.0}


@pytest.mark.parametrize("phase", ["reasoning", "answering"])
def test_the_lengths_of_a_phase_are_powers_of_two(phase: Literal["reasoning", "answering"]) -> None:
    frame = PhaseTrace(phase=phase, rate=3.0).draw(1).frame
    reasoning = frame["reasoning_tokens"]
    lengths = reasoning if phase == "reasoning" else frame["output_tokens"] - reasoning
    # Figure 4's and Figure 5's axes.
    assert set(lengths.to_list()) == {128, 256, 512, 1024, 2048}
    assert frame["prompt_tokens"].unique().to_list() == [128]
    assert (reasoning == 0).all() == (phase == "answering")


def test_the_arrivals_of_a_phase_are_the_same_at_every_rate_but_for_their_pace() -> None:
    once, twice = (PhaseTrace(phase="reasoning", rate=rate).draw(3).frame for rate in (2.0, 4.0))
    assert (twice["arrival"] * 2).to_list() == pytest.approx(once["arrival"].to_list(), abs=1e-9)
    assert twice["reasoning_tokens"].to_list() == once["reasoning_tokens"].to_list()


def test_latencies_are_split_into_parts_of_the_oracles() -> None:
    def requests(reasoning: list[float], blocked: list[float], preempted: list[float]) -> pl.DataFrame:
        return pl.DataFrame(
            {
                "reasoning_tokens": [128, 128, 256],
                "reasoning": reasoning,
                "blocked": blocked,
                "preempted": [1.5 + while_reasoning for while_reasoning in preempted],
                "preempted_answering": [1.5] * 3,
                "qoe": [1.0, 0.9, 1.0],
            }
        )

    frames = {
        "oracle": requests([4.0, 4.0, 8.0], [0.0] * 3, [0.0] * 3),
        "FCFS": requests([10.0, 14.0, 9.0], [6.0, 10.0, 1.0], [0.0] * 3),
        "RR": requests([5.0, 5.0, 12.0], [0.0] * 3, [1.0, 1.0, 4.0]),
    }
    found = split(frames, "reasoning").drop("attainment")
    assert found.rows() == [
        (128, "oracle", 1.0, 0.0, 0.0, 4.0),
        (128, "FCFS", 1.0, 2.0, 0.0, 12.0),
        (128, "RR", 1.0, 0.0, 0.25, 5.0),
        (256, "oracle", 1.0, 0.0, 0.0, 8.0),
        (256, "FCFS", 1.0, 0.125, 0.0, 9.0),
        (256, "RR", 1.0, 0.0, 0.5, 12.0),
    ]


def test_bisection_ends_just_below_the_threshold() -> None:
    assert bisected(lambda x: x <= 3.3, 0.5, 16.0) == pytest.approx(3.3, rel=0.01)
    assert bisected(lambda x: x <= 3.3, 0.5, 16.0) <= 3.3


def test_a_comparison_names_the_largest_differences() -> None:
    def requests(ttft: float, violated: int, finish: float, blocking: float = 0.0) -> pl.DataFrame:
        return pl.DataFrame(
            {
                "arrival": [0.0] * 10,
                "reasoning_tokens": [10] * 10,
                "output_tokens": [20] * 10,
                "ttft": [ttft] * 10,
                "violated": [True] * violated + [False] * (10 - violated),
                "finish": [finish] * 10,
                "e2e": [finish] * 10,
                "migrations": [1] + [0] * 9,
                "transfer": [0.25] + [0.0] * 9,
                "blocking": [blocking] * 10,
            }
        )

    found = summary(
        {
            "FCFS": requests(20.0, 3, 100.0),
            "RR": requests(8.0, 2, 98.0),
            "PASCAL": requests(10.0, 1, 100.0, 0.5),
            "PASCAL(NoMigration)": requests(10.0, 2, 100.0, 9.0),
            "PASCAL(NonAdaptive)": requests(10.0, 4, 120.0),
        }
    )
    assert found == pytest.approx(
        {
            **{"cut FCFS": 0.5, "cut RR": 0.0, "worse FCFS": 0.0, "worse RR": 0.25},
            **{"cut FCFS (s)": 10.0, "cut RR (s)": 0.0, "e2e median": 0.2, "e2e tail": 0.2},
            **{"violations": 0.1, "FCFS's": 0.3, "RR's": 0.2, "NonAdaptive's": 0.4, "NoMigration's": 0.2},
            **{"blocking": 0.5, "blocking NoMigration": 9.0, "transfer": 0.25, "throughput": 0.98 - 1},
        }
    )
