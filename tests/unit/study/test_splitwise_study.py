"""The study of Splitwise: slowdowns of requests by hand, and pools beside machines that run both."""

from __future__ import annotations

import pytest

from paceline.study import Drawn, Trial, Trials, Work, run_study
from paceline.study.splitwise.designs import Design
from paceline.study.splitwise.searches import holds, measured
from paceline.synthesis import Constant, Workload


def slowdowns(machine: str, prompt_tokens: int) -> dict[str, float]:
    """Return those of a request with two tokens that a machine serves alone."""
    design = Design(name="alone", prompt=machine, token=machine, prompts=1)
    lengths = Workload(prompt_tokens=Constant(prompt_tokens), output_tokens=Constant(2))
    trial = Trial(
        trace=Drawn(workload=lengths, requests=1, rate=1.0),
        cluster=design.cluster("splitwise-sim"),
        policy=design.policy(),
    )
    return Trials(measured, Work(workers=1)).of([trial])[0]


def test_a_request_alone_on_an_a100_is_as_fast_as_the_reference() -> None:
    found = slowdowns("A100", 1000)
    assert found["TTFT P50"] == pytest.approx(1.0, abs=1e-6)
    # The line charges 0.24 ms for the token that a decode computes, beside 48.76 ms.
    assert found["TBT P99"] == pytest.approx(1 + 0.24 / 48.76, abs=1e-4)
    assert holds(found)


def test_an_h100_takes_what_was_measured_of_a_prompt_of_2048() -> None:
    assert slowdowns("H100", 2048)["TTFT P50"] == pytest.approx(253.1 / 540.4, abs=1e-6)
    # Two steps, the second of one token: 253.1 and 36.2 ms, where the A100 line has 540.6.
    assert slowdowns("H100", 2049)["TTFT P50"] == pytest.approx((253.1 + 36.11 + 0.106) / 540.64, abs=1e-4)


def test_pools_gain_only_while_decodes_are_free() -> None:
    frame = run_study("splitwise", Work(quick=True)).tables()["splitwise-rates"].frame
    of = {row["design"]: row for row in frame.iter_rows(named=True)}
    pools, both = of["Splitwise-AA"], of["Baseline-A100"]
    assert pools["requests/s, splitwise-sim"] > 1.5 * both["requests/s, splitwise-sim"]
    # 25 machines hold the conversations that 70 held, and each makes a measured decode step longer.
    assert pools["requests/s, measured"] <= both["requests/s, measured"]
    # The budget of 40 H100 machines in power, at 44 and 24.8 each.
    assert pools["power"] == pytest.approx(70 * 24.8)
    assert of["Baseline-H100"]["power"] == 40 * 44
