"""The presets against what they were fitted to."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.synthesis import Empirical, Gamma, Poisson, Quantiles, preset, presets, synthesize
from paceline.trace import read_trace

FITTED = {
    "azure-conv": "azure2023_conv.csv.zst",
    "azure-code": "azure2023_code.csv.zst",
    "mooncake-conv": "mooncake_conversation.jsonl.zst",
}


@pytest.mark.parametrize("name", presets())
def test_every_preset_has_a_source_and_can_be_drawn(name: str) -> None:
    workload = preset(name)
    assert len(workload.source) > 40
    trace = synthesize(name, requests=100, rate=1.0, seed=1)
    assert (len(trace), trace.name) == (100, name)


def test_an_unknown_preset_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"one of azure-conv, .*, was 'azure'"):
        preset("azure")


def _held_to(data: np.ndarray, table: object, mean_within: float) -> None:
    assert isinstance(table, Quantiles)
    ordered = np.sort(data)
    for p, count in table.points:
        assert ordered[max(0, math.ceil(p * len(ordered)) - 1)] == count
    drawn = table.tokens((np.arange(100_000) + 0.5) / 100_000)
    assert drawn.mean() == pytest.approx(data.mean(), rel=mean_within)


@pytest.mark.parametrize("name", FITTED)
def test_the_tables_are_the_traces_own_quantiles(shared: Path, name: str) -> None:
    trace = read_trace(shared / "traces" / FITTED[name])
    workload = preset(name)
    # No source says a mean is off by more than 1.3 %.
    _held_to(trace.frame["prompt_tokens"].to_numpy(), workload.prompt_tokens, 0.0135)
    _held_to(trace.frame["output_tokens"].to_numpy(), workload.output_tokens, 0.0135)
    assert workload.rate == pytest.approx(trace.rate_per_s, rel=2e-4)


@pytest.mark.parametrize("name", ["azure-conv", "azure-code"])
def test_azures_burstiness_is_the_traces(shared: Path, name: str) -> None:
    gaps = np.diff(read_trace(shared / "traces" / FITTED[name]).frame["arrival"].to_numpy())
    arrivals = preset(name).arrivals
    assert isinstance(arrivals, Gamma)
    assert arrivals.cv == pytest.approx(gaps.std() / gaps.mean(), rel=1e-3)


def test_sharegpts_tables_are_the_files_own_quantiles(shared: Path) -> None:
    lengths = Empirical.from_csv(shared / "traces" / "sarathi_sharegpt8k_lengths.csv.zst")
    workload = preset("sharegpt")
    _held_to(lengths.prompt_tokens.counts, workload.prompt_tokens, 0.0025)
    _held_to(lengths.output_tokens.counts, workload.output_tokens, 0.0025)


@pytest.mark.parametrize(
    ("name", "side", "mean", "p90", "std"),
    [  # layered prefill, Table 4
        ("sharegpt", "prompt_tokens", 2340, 5696, 2088),
        ("sharegpt", "output_tokens", 438, 834, 265),
        ("arxiv-summarization", "prompt_tokens", 9194, 17152, 5754),
        ("arxiv-summarization", "output_tokens", 231, 386, 104),
    ],
)
def test_drawn_lengths_have_the_papers_statistics(
    name: str, side: str, mean: float, p90: float, std: float
) -> None:
    drawn = synthesize(name, requests=400_000, rate=1.0, seed=5).frame[side].to_numpy()
    assert drawn.mean() == pytest.approx(mean, rel=0.006)
    assert np.quantile(drawn, 0.9) == pytest.approx(p90, rel=0.006)
    assert drawn.std() == pytest.approx(std, rel=0.006)


def test_workloads_without_a_process_of_their_own_are_poisson() -> None:
    assert preset("sharegpt").arrivals == Poisson()
    with pytest.raises(ConfigError, match="rate must be given"):
        synthesize("sharegpt", requests=10, seed=1)
