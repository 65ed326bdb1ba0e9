"""Scores of prompts in files, of any predictor, and in traces.

A file has a row for each prompt: ``id``, and either ``score``, higher for a longer answer, or
``predicted_tokens``. A request of a trace has its row as id, in order of arrival from 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline.errors import RankError
from paceline.rank.examples import ids_in
from paceline.rank.table import read_table, write_table
from paceline.trace.model import Trace
from paceline.trace.rows import Rows

__all__ = ["KINDS", "read_scores", "score_trace", "scores_in", "write_scores"]

KINDS: Final = ("score", "predicted_tokens")


def read_scores(path: str | Path) -> pl.DataFrame:
    """Read ids and scores from CSV, JSON Lines or Parquet.

    Returns
    -------
    polars.DataFrame
        The columns ``id`` and ``score``; predicted tokens are scores.

    Raises
    ------
    RankError
        The file is no such table, an id is missing or there twice, or a score is no finite number; the
        message names the row.
    """
    return scores_in(*read_table(path))


def scores_in(table: pl.DataFrame, rows: Rows) -> pl.DataFrame:
    """Return the ids and scores of a table; see `read_scores`."""
    ids = ids_in(table, rows, required=True)
    name = next((kind for kind in KINDS if kind in table.columns), None)
    if name is None:
        raise RankError(
            f"{rows.name}: must have the column score or predicted_tokens, has {', '.join(table.columns)}"
        )
    column = table.get_column(name)
    numbers = column.cast(pl.Float64, strict=False)
    bad = ~numbers.is_finite().fill_null(value=False)
    if bad.any():
        row = bad.arg_max()
        assert row is not None
        was = "missing" if column[row] is None else str(column[row])
        raise RankError(f"{rows.locate(row)}: {name} must be a finite number, was {was}")
    return pl.DataFrame([ids, numbers.alias("score")])


def write_scores(
    ids: pl.Series, values: npt.NDArray[np.float64], path: str | Path, *, kind: str = "score"
) -> None:
    """Write a row for each prompt to .jsonl, .csv or .parquet.

    Parameters
    ----------
    ids
        Of the prompts.
    values
        Their scores, or predicted tokens.
    path
        The file.
    kind
        ``"score"`` or ``"predicted_tokens"``: the name of the column.
    """
    write_table(pl.DataFrame([ids.alias("id"), pl.Series(kind, values, dtype=pl.Float64)]), path)


def score_trace(trace: Trace, scores: pl.DataFrame) -> Trace:
    """Return a trace with scores, for schedulers such as `paceline.policies.pars`.

    Parameters
    ----------
    trace
        The requests.
    scores
        The columns ``id`` (a request's row in the trace, in order of arrival from 0) and ``score``, a row for
        each request.

    Raises
    ------
    RankError
        A request has no score, or an id is of no request.

    Examples
    --------
    >>> trace = Trace.from_columns(arrival=[0, 1], prompt_tokens=[8, 9], output_tokens=[3, 4])
    >>> score_trace(trace, pl.DataFrame({"id": [1, 0], "score": [0.5, -2.0]})).frame["score"].to_list()
    [-2.0, 0.5]
    """
    ids = scores.get_column("id")
    places = ids.cast(pl.Int64, strict=False)
    outside = (places.is_null() | (places < 0) | (places >= len(trace))).fill_null(value=True)
    if outside.any():
        row = outside.arg_max()
        assert row is not None
        raise RankError(
            f"scores, row {row}: id must be a request's row in trace {trace.name}, from 0 to "
            f"{len(trace) - 1:,}, was "
            f"{ids[row]!r}"
        )
    values = np.full(len(trace), np.nan)
    values[places.to_numpy()] = scores.get_column("score").to_numpy()
    without = np.isnan(values)
    if without.any():
        raise RankError(
            f"trace {trace.name}, row {int(without.argmax())} (counting from 0): has no score; the scores "
            f"must "
            f"have a row for each of {len(trace):,} requests, {int(without.sum()):,} are missing"
        )
    frame = trace.frame.drop("score", strict=False).with_columns(pl.Series("score", values))
    return trace.with_frame(frame)
