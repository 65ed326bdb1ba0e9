"""The paper's rule for tails, on bins counted by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from paceline.study.pascal.tails import compared, extremes, tail, tails


@pytest.mark.parametrize(
    ("count", "statistic", "share"),
    [
        *((5, "max", 1.0), (9, "max", 1.0), (10, "P90", 0.9), (19, "P90", 0.9)),
        *((20, "P95", 0.95), (99, "P95", 0.95), (100, "P99", 0.99), (5000, "P99", 0.99)),
    ],
)
def test_the_percentile_depends_on_how_many_there_are(count: int, statistic: str, share: float) -> None:
    values = np.arange(count, dtype=float)
    assert tail(pl.Series(values)) == (pytest.approx(np.quantile(values, share)), statistic)


def test_fewer_than_five_have_no_tail() -> None:
    assert tail(pl.Series([1.0, 2.0, 3.0, 4.0])) is None


def _requests(*bins: tuple[int, list[float | None]]) -> pl.DataFrame:
    rows = [(tokens, value) for tokens, values in bins for value in values]
    return pl.DataFrame(rows, schema={"reasoning_tokens": pl.UInt32, "ttft": pl.Float64}, orient="row")


def test_bins_are_256_tokens_wide_and_small_ones_are_left_out() -> None:
    frame = _requests((0, [1.0] * 3), (255, [2.0] * 3), (256, [7.0] * 4), (512, [3.0] * 5), (767, [4.0]))
    assert tails(frame).rows() == [(0, 6, "max", 2.0), (512, 6, "max", 4.0)]


def test_requests_without_an_answer_are_in_no_bin() -> None:
    assert tails(_requests((10, [1.0, 1.0, 1.0, 1.0, None]))).height == 0


def test_the_largest_cut_and_the_worst_bin_are_found_among_shared_bins() -> None:
    ours = _requests((0, [4.0] * 5), (300, [50.0] * 5), (600, [33.0] * 5), (900, [1.0] * 5))
    theirs = _requests((0, [10.0] * 5), (300, [90.0] * 5), (600, [30.0] * 5))
    bins = compared({"new": tails(ours), "old": tails(theirs)}, "new", "old")
    assert bins["from_tokens"].to_list() == [0, 256, 512]
    assert extremes(bins) == pytest.approx(
        {"cut": 0.6, "cut_s": 40.0, "cut_at": 0, "worse": 0.1, "worse_s": 3.0, "worse_at": 512}
    )
