"""The study of Arrow: its traces, and its systems."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paceline import SLO, Trace, policies
from paceline.study import Work, run_study
from paceline.study.arrow.paper import PAPER
from paceline.study.arrow.systems import SYSTEMS, TITLES, Setting
from paceline.study.arrow.workloads import WORKLOADS, load, minutes, per_minute
from paceline.study.choices import choices
from paceline.trace import read_trace

CHAT = SLO(ttft=2.0, tpot=0.15)


def test_the_variation_of_a_minute_is_of_its_input_tokens() -> None:
    # Whole minutes: 30 tokens, 10 tokens. Mean 20, deviation 10.
    trace = Trace.from_columns(
        arrival=[0.0, 59.0, 60.0, 120.0], prompt_tokens=[10, 20, 10, 500], output_tokens=[1, 1, 1, 1]
    )
    assert per_minute(trace) == 0.5


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_drawn_trace_has_the_requests_of_table_1_and_the_lengths_it_asks_for(name: str) -> None:
    drawn, trace = WORKLOADS[name], load(name, None).trace
    assert len(trace) == PAPER["table-1", name, "requests"].number
    assert trace.frame["prompt_tokens"].mean() == pytest.approx(drawn.prompt[0], rel=0.1)
    assert trace.span_s == pytest.approx(drawn.span_s, rel=0.02)


@pytest.mark.parametrize("name", ["code", "burstgpt"])
def test_a_drawn_trace_varies_by_minute_as_figure_1_says(name: str) -> None:
    # 60 minutes: the deviation of a sample of this size is about an eighth of the value, and twice that for
    # a Gamma distribution with so long a tail.
    assert per_minute(load(name, None).trace) == pytest.approx(PAPER["figure-1", name].number, rel=0.3)


def test_a_trace_in_the_folder_replaces_the_drawn_one(data: Path) -> None:
    folder = data / "traces"
    assert load("code", folder).real
    assert load("code", folder).trace.frame.equals(read_trace(folder / "azure2023_code.csv.zst").frame)
    # The first ten minutes: all of the stand-in, whose last request arrives at 60 s.
    clip = read_trace(folder / "mooncake_conversation.jsonl.zst").window(0.0, 600.0005)
    assert load("mooncake", folder).trace.frame.equals(clip.frame)
    assert not load("burstgpt", folder).real


def test_real_traces_are_the_papers(shared: Path) -> None:
    for name in ("code", "conversation", "mooncake"):
        found = load(name, shared / "traces")
        assert found.real
        assert len(found.trace) == PAPER["table-1", name, "requests"].number
    # Section 3.1: 25.7K tokens in the least minute of the code trace, 1327.9K in the most.
    code = load("code", shared / "traces").trace
    assert per_minute(code) == pytest.approx(PAPER["figure-1", "code"].number, abs=0.03)
    assert (minutes(code).min(), minutes(code).max()) == (25_760.0, 1_327_909.0)


def test_arrow_runs_as_users_get_it() -> None:
    assert Setting().policy("arrow", CHAT) == policies.arrow(ttft=2.0, tpot=0.15)


def test_every_system_has_eight_gpus() -> None:
    for system in TITLES:
        instances = Setting().cluster(system).instances
        assert sum(each.tensor_parallel for each in instances) == 8


def test_each_variation_of_a_choice_is_replayed() -> None:
    from paceline.study.arrow.variations import SETTINGS

    named = [row for choice in choices("paceline.study.arrow") for row in choice.rows]
    assert sorted(named) == sorted(name for name in SETTINGS if name)


def test_a_quick_study_has_all_pages_but_variations() -> None:
    study = run_study("arrow", Work(quick=True))
    tables = study.tables()
    assert {"rates", "ratios", "strategies", "gpus", "choices-table"} <= set(tables)
    assert "variations" not in tables
    assert tables["rates"].frame[TITLES[SYSTEMS[0]]].min() > 0  # type: ignore[operator]


def test_the_ratios_are_those_of_section_7(shared: Path) -> None:
    text = (shared / "papers/arrow.md").read_text(encoding="utf-8")
    said = {float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)}
    assert {stated.number for stated in PAPER.all()} <= said
