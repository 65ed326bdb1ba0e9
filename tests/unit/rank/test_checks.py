"""Arguments of `paceline.rank`: one-dimensional arrays, and messages that name the argument and the row."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from paceline.errors import RankError
from paceline.rank import Calibration, draw_pairs, kendall_tau, tau_by, tau_with_interval
from paceline.rank.checks import numbered, numbers


@pytest.mark.parametrize(
    "values", [[1, 2], (1.0, 2.0), range(1, 3), np.array([1, 2], dtype=np.uint8), pl.Series([1, 2])]
)
def test_lists_arrays_and_series_are_arrays_of_floats(values: object) -> None:
    found = numbers("lengths", values)
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (3, r"lengths must be a list of numbers, such as \[1.0, 2.5\], was 3$"),
        ("12", "lengths must be a list of numbers, .*, was '12'$"),
        ([[1, 2], [3, 4]], r"lengths must be a list of numbers, .* of shape \(2, 2\)$"),
        ([[1], [2, 3]], r"lengths must be a list of numbers, .* was \[\[1\], \[2, 3\]\]$"),
        ([1, None], "lengths, row 1: must be a finite number, was None$"),
        ([1, "2"], "lengths, row 1: must be a finite number, was '2'$"),
        ([1, 2, float("inf")], "lengths, row 2: must be a finite number, was inf$"),
        ([1, 10**400], "lengths, row 1: must be a finite number, was 1000"),
        (pl.Series([1, None]), "lengths, row 1: must be a finite number, was nan$"),
    ],
)
def test_the_row_that_is_no_number_is_named(values: object, message: str) -> None:
    with pytest.raises(RankError, match=message):
        numbers("lengths", values)


def test_infinite_scores_have_an_order() -> None:
    assert kendall_tau([1.0, float("inf"), 2.0], [1, 3, 2]) == pytest.approx(1.0)


def test_names_are_numbered_in_their_order() -> None:
    assert numbered("groups", ["b", "a", "b"], 3).tolist() == [1, 0, 1]
    assert numbered("groups", [10, 2, 10], 3).tolist() == [1, 0, 1]
    with pytest.raises(RankError, match="groups must be one for each of 2 samples, was 1"):
        draw_pairs([1, 2], groups=["a"])
    with pytest.raises(RankError, match="clusters, row 1: must be a string or a number, was None"):
        tau_with_interval([1, 2], [1, 2], clusters=["a", None])


def test_a_frame_without_a_column_is_refused_by_its_name() -> None:
    frame = pl.DataFrame({"model": ["a", "a"], "score": [1.0, None], "output_tokens": [1, 2]})
    with pytest.raises(RankError, match="frame must have the column dataset, has model, score"):
        tau_by(frame, ("dataset",))
    with pytest.raises(RankError, match="score, row 1: must be a number, was nan"):
        tau_by(frame, ("model",))


def test_a_calibration_names_the_row_of_an_infinite_length() -> None:
    with pytest.raises(RankError, match="lengths, row 1: must be a finite number, was inf"):
        Calibration.fit([1, 2], [1, float("inf")])
