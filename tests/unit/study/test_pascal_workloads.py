"""The study's workloads against what they were fitted to."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from paceline.study.pascal.workloads import Asked, chats, lengths_of
from paceline.synthesis import Quantiles

MANY = 200_000
# KV of a token: 64 layers, keys and values, 8 heads of 128 numbers of 2 bytes; 100 Gbps are 12.5e9 bytes/s.
TOKENS_PER_S = 12.5e9 / (64 * 2 * 8 * 128 * 2)


@pytest.mark.parametrize(("name", "transfer_s"), [("alpacaeval", 0.14), ("arena-hard", 0.25)])
def test_reasoning_has_the_papers_two_facts(name: str, transfer_s: float) -> None:
    lengths = lengths_of(chats(name), MANY, 1)
    # "More than 70%" is Arena-Hard's 70% less the error of a draw, 0.1%.
    assert (lengths["reasoning_tokens"] < 1000).mean() > 0.699
    carried = lengths["prompt_tokens"] + lengths["reasoning_tokens"]
    # Below what a transfer that waits for no other could move, and not by more than a wait as long as itself.
    p99 = carried.quantile(0.99)
    assert p99 is not None
    assert 0.6 < p99 / (transfer_s * TOKENS_PER_S) < 1.0


def test_problems_reason_8_48_times_as_long_as_they_answer() -> None:
    lengths = lengths_of(chats("problem-solving"), MANY, 1)
    reasoning = lengths["reasoning_tokens"].sum()
    assert reasoning / (lengths["output_tokens"].sum() - reasoning) == pytest.approx(8.48, rel=0.01)


def test_arena_hards_answers_average_what_its_leaderboard_says() -> None:
    lengths = lengths_of(chats("arena-hard"), MANY, 1)
    answers = lengths["output_tokens"] - lengths["reasoning_tokens"]
    assert answers.mean() == pytest.approx(662, rel=0.005)


@pytest.mark.parametrize(
    ("side", "file", "column", "model"),
    [
        ("prompt_tokens", "alpacaeval_prompts.parquet", "prompt_tokens", None),
        ("answer_tokens", "alpacaeval_output_lengths.parquet", "output_tokens", "gpt4_1106_preview"),
    ],
)
def test_the_tables_are_alpacaevals_quantiles(
    shared: Path, side: str, file: str, column: str, model: str | None
) -> None:
    frame = pl.read_parquet(shared / "traces" / file)
    if model is not None:
        frame = frame.filter(pl.col("model") == model)
    ordered = np.sort(frame[column].to_numpy())
    table = getattr(chats("alpacaeval"), side)
    assert isinstance(table, Quantiles)
    for p, count in table.points:
        assert ordered[max(0, math.ceil(p * len(ordered) - 1e-9) - 1)] == count


def test_more_requests_continue_the_same_ones() -> None:
    few, many = (Asked(workload=chats("alpacaeval"), requests=n).draw(4).frame for n in (200, 500))
    assert many.head(200).equals(few)


def test_half_of_the_requests_are_replaced() -> None:
    arena, problems = chats("arena-hard"), chats("problem-solving")
    mixed = Asked(workload=arena, half=problems, requests=10_000).draw(2).frame
    lengths = [lengths_of(each, 10_000, 2) for each in (arena, problems)]
    columns = ["prompt_tokens", "output_tokens", "reasoning_tokens"]
    mine, theirs = (
        np.all([mixed[name].to_numpy() == each[name].to_numpy() for name in columns], axis=0)
        for each in lengths
    )
    assert np.all(mine | theirs)
    # A fair coin's 10,000 throws: five standard deviations are 2.5%.
    assert theirs.mean() == pytest.approx(0.5, abs=0.025)
