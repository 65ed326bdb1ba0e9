"""Lengths drawn from a file of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paceline.errors import ConfigError, TraceError
from paceline.synthesis import Empirical, Sample, Workload, synthesize
from paceline.trace import Trace

HEADER = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"


def test_pairs_stay_together() -> None:
    workload = Workload(lengths=Empirical([1, 20, 300], [1000, 2000, 3000]))
    frame = synthesize(workload, requests=3_000, rate=1.0, seed=1).frame
    assert set(frame.select("prompt_tokens", "output_tokens").rows()) == {(1, 1000), (20, 2000), (300, 3000)}


def test_sides_may_be_drawn_apart() -> None:
    lengths = Empirical([1, 2], [10, 20])
    workload = Workload(prompt_tokens=lengths.prompt_tokens, output_tokens=lengths.output_tokens)
    frame = synthesize(workload, requests=1_000, rate=1.0, seed=1).frame
    assert len(set(frame.select("prompt_tokens", "output_tokens").rows())) == 4


def test_a_file_of_lengths_needs_no_arrivals_and_may_be_floats(tmp_path: Path) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text(f"{HEADER}74,918.0,992,0.08\n5,0,5,0\n290,905,1195,0.32\n")
    assert Empirical.from_csv(path) == Empirical([74, 290], [918, 905])
    turned = Empirical.from_csv(path, prompt="num_total_tokens", output="num_prefill_tokens")
    assert turned == Empirical([992, 5, 1195], [74, 5, 290])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HEADER}74,9.5,1,1\n", "line 2: num_decode_tokens must be a whole number, not a fraction"),
        (f"{HEADER}0,9,1,1\n", "line 2: num_prefill_tokens must be at least 1, was 0"),
        (f"{HEADER}7,0,1,1\n", "has no row with output"),
        ("a,b\n1,2\n", "line 1: missing prompt_tokens or num_prefill_tokens"),
        ("", "is empty"),
        ('{"a": 1}', "must be CSV, was JSONL"),
    ],
)
def test_a_file_that_does_not_do_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        Empirical.from_csv(path)


def test_a_traces_lengths() -> None:
    trace = Trace.from_columns(arrival=[0, 1], prompt_tokens=[5, 6], output_tokens=[7, 8])
    assert Empirical.from_trace(trace) == Empirical([5, 6], [7, 8])


def test_sarathis_sharegpt_lengths_have_the_papers_statistics(shared: Path) -> None:
    lengths = Empirical.from_csv(shared / "traces" / "sarathi_sharegpt8k_lengths.csv.zst")
    prompts, outputs = lengths.prompt_tokens.counts, lengths.output_tokens.counts
    # layered prefill, Table 4: mean, p90 and standard deviation of inputs and outputs
    assert (round(prompts.mean()), round(np.quantile(prompts, 0.9)), round(prompts.std(), -1)) == (
        2340,
        5696,
        2090,
    )
    assert (outputs.mean(), np.quantile(outputs, 0.9), outputs.std()) == pytest.approx(
        (438, 834, 265), rel=3e-3
    )


@pytest.mark.parametrize("counts", [[], [0], [2**30], [1.5], [[1]]])
def test_counts_that_are_no_lengths_are_refused(counts: list[object]) -> None:
    with pytest.raises(ConfigError, match="counts must be"):
        Sample(counts)


def test_sides_of_different_length_are_refused() -> None:
    with pytest.raises(ConfigError, match="were 1 and 2"):
        Empirical([1], [1, 2])
