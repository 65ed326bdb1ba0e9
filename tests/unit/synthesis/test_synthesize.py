"""Drawing a trace: reproducible, at the rate asked for, one purpose's numbers apart from another's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import ConfigError, TraceError
from paceline.synthesis import Bursts, Constant, Gamma, Lognormal, Poisson, Uniform, Workload, synthesize
from paceline.synthesis.streams import PART

CHAT = Workload(
    name="chat",
    prompt_tokens=Lognormal.from_mean(1000, sigma=0.8, high=16_384),
    output_tokens=Lognormal.from_mean(240, sigma=0.6, high=2_048),
)


def test_the_same_seed_gives_the_same_trace_and_another_another() -> None:
    one = synthesize(CHAT, requests=5_000, rate=60.0, seed=11)
    assert one.sha256 == synthesize(CHAT, requests=5_000, rate=60.0, seed=11).sha256
    assert one.sha256 != synthesize(CHAT, requests=5_000, rate=60.0, seed=12).sha256


@pytest.mark.parametrize("arrivals", [Poisson(), Gamma(cv=0.5), Gamma(cv=4.0), Bursts(size=7)])
@pytest.mark.parametrize("requests", [1, 100, PART - 1, PART, PART + 1])
def test_more_requests_continue_the_same_trace(arrivals: Poisson | Gamma | Bursts, requests: int) -> None:
    short = synthesize(CHAT, requests=requests, rate=60.0, seed=3, arrivals=arrivals)
    long = synthesize(CHAT, requests=2 * PART, rate=60.0, seed=3, arrivals=arrivals)
    assert long.frame.head(requests).equals(short.frame)


def test_rate_and_lengths_are_those_asked_for() -> None:
    trace = synthesize(CHAT, requests=200_000, rate=60.0, seed=1)
    assert trace.rate_per_s == pytest.approx(60, rel=4 / math.sqrt(200_000))
    assert trace.frame["prompt_tokens"].mean() == pytest.approx(1000, rel=0.01)
    assert trace.frame["output_tokens"].mean() == pytest.approx(240, rel=0.01)


def test_lengths_and_arrivals_are_independent() -> None:
    frame = synthesize(CHAT, requests=100_000, rate=1.0, seed=2).frame
    gaps = np.diff(frame["arrival"].to_numpy(), prepend=0.0)
    columns = [np.argsort(np.argsort(c)) for c in (gaps, frame["prompt_tokens"], frame["output_tokens"])]
    off_diagonal = np.corrcoef(columns)[np.triu_indices(3, k=1)]
    assert np.abs(off_diagonal).max() < 4 / math.sqrt(100_000)


def test_another_rate_or_process_changes_no_length() -> None:
    lengths = ["prompt_tokens", "output_tokens"]
    plain = synthesize(CHAT, requests=1_000, rate=1.0, seed=1).frame.select(lengths)
    assert synthesize(CHAT, requests=1_000, rate=9.0, seed=1).frame.select(lengths).equals(plain)
    bursts = synthesize(CHAT, requests=1_000, rate=1.0, seed=1, arrivals=Bursts(size=10))
    assert bursts.frame.select(lengths).equals(plain)


def test_all_at_once() -> None:
    trace = synthesize(CHAT, requests=1_000, rate=math.inf, seed=1)
    assert set(trace.frame["arrival"].to_list()) == {0.0}


def test_arrivals_are_whole_nanoseconds() -> None:
    arrival = synthesize(CHAT, requests=1_000, rate=3.0, seed=1).frame["arrival"].to_list()
    assert arrival == [round(value, 9) for value in arrival]


def test_the_trace_says_how_it_was_made() -> None:
    trace = synthesize(CHAT, requests=10, rate=3.0, seed=7, name="mine")
    assert trace.name == "mine"
    assert trace.source.kind == "synthesis"
    assert "synthesize('chat', requests=10, rate=3.0, seed=7), Poisson()" in trace.source.detail


@given(st.integers(1, 300), st.floats(0.001, 1e9), st.integers(0, 2**70), st.floats(0.05, 20))
def test_every_draw_is_a_valid_trace(requests: int, rate: float, seed: int, cv: float) -> None:
    workload = Workload(
        arrivals=Gamma(cv=cv), prompt_tokens=Uniform(low=1, high=9), output_tokens=Constant(3)
    )
    trace = synthesize(workload, requests=requests, rate=rate, seed=seed)
    assert len(trace) == requests


@pytest.mark.parametrize(
    "settings",
    [
        {"requests": 0},
        {"requests": 1.5},
        {"requests": True},
        {"seed": -1},
        {"seed": 0.5},
        {"rate": 0.0},
        {"rate": math.nan},
        {"rate": None},
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, object]) -> None:
    good: dict[str, object] = {"requests": 10, "rate": 1.0, "seed": 1}
    with pytest.raises(ConfigError, match=next(iter(settings))):
        synthesize(CHAT, **(good | settings))  # type: ignore[arg-type]


def test_a_trace_longer_than_the_clock_is_refused() -> None:
    with pytest.raises(TraceError, match="arrival must be below"):
        synthesize(CHAT, requests=1_000, rate=1e-6, seed=1)


def test_a_workload_needs_its_lengths_in_one_way() -> None:
    with pytest.raises(ConfigError, match="needs prompt_tokens and output_tokens, or lengths"):
        Workload(prompt_tokens=Constant(1))
    with pytest.raises(ConfigError, match="rate must be"):
        Workload(prompt_tokens=Constant(1), output_tokens=Constant(1), rate=-1.0)
