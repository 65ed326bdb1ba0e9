"""Prompts with the lengths of their answers, read from files.

A table has the column ``prompt`` and one of lengths: ``output_tokens``, ``length`` or ``output_words``,
reasoning included. ``dataset`` and ``model`` are kept if present. The layout of Stanford Alpaca
(``instruction``, ``input``, ``output``) is read too, with lengths in words. Lengths may be in a file of their
own, joined by ``id`` or ``prompt_id``: a row for each prompt and model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline.errors import RankError
from paceline.rank.table import read_table
from paceline.trace.rows import Rows

__all__ = ["Examples", "prompts_in", "read_examples", "read_prompts"]

_LENGTHS: Final = ("output_tokens", "length", "output_words")
_IDS: Final = ("id", "prompt_id")
_ALPACA: Final = ("instruction", "input", "output")


@dataclass(frozen=True, slots=True)
class Examples:
    """Prompts with the lengths of their answers.

    Attributes
    ----------
    frame
        The columns ``prompt``, ``output_tokens``, ``dataset`` and ``model``, a row for each answer.
    dropped
        Rows that were left out, counted by reason.
    """

    frame: pl.DataFrame
    dropped: dict[str, int]

    def __len__(self) -> int:
        return self.frame.height

    @property
    def prompts(self) -> list[str]:
        """The prompts."""
        return self.frame.get_column("prompt").to_list()

    @property
    def lengths(self) -> npt.NDArray[np.float64]:
        """The lengths of the answers, in the unit of the file."""
        return self.frame.get_column("output_tokens").to_numpy()

    @property
    def groups(self) -> list[str]:
        """The file, dataset and model of each row: only lengths of one group are comparable."""
        return self.frame.select(pl.concat_str("source", "model", separator="/")).to_series().to_list()


def read_examples(paths: Sequence[str | Path], *, lengths: str | Path | None = None) -> Examples:
    """Read prompts with the lengths of their answers.

    Parameters
    ----------
    paths
        CSV, JSON Lines, JSON or Parquet; see the module.
    lengths
        A table with the lengths of the prompts in the one file of ``paths``, joined by ``id`` or
        ``prompt_id``.

    Raises
    ------
    RankError
        A file is none of these, or a row has no prompt or no usable length; the message names it.
    """
    if lengths is not None and len(paths) != 1:
        raise RankError(f"lengths of their own must go with one file of prompts, was {len(paths)} files")
    parts: list[pl.DataFrame] = []
    dropped: dict[str, int] = {}
    for path in paths:
        table, rows = read_table(path)
        if lengths is not None:
            table, rows = _joined(table, rows, *read_table(lengths))
        part, left_out = _examples(table, rows)
        source = Path(path).name.partition(".")[0]
        parts.append(
            part.with_columns(
                pl.lit(source).alias("source"),
                pl.col("dataset").fill_null(source)
                if "dataset" in part.columns
                else pl.lit(source).alias("dataset"),
                pl.col("model").fill_null("") if "model" in part.columns else pl.lit("").alias("model"),
            ).select("prompt", "output_tokens", "source", "dataset", "model")
        )
        for reason, count in left_out.items():
            dropped[reason] = dropped.get(reason, 0) + count
    return Examples(pl.concat(parts), dropped)


def read_prompts(path: str | Path) -> tuple[pl.Series, list[str]]:
    """Read ids and prompts.

    Returns
    -------
    ids
        The column ``id`` (or ``prompt_id``), as in the file; row numbers from 0 if it has none.
    prompts
        The column ``prompt``.

    Raises
    ------
    RankError
        The file is no table, a prompt is missing or empty, or an id is missing or there twice.
    """
    table, rows = read_table(path)
    prompts = prompts_in(table, rows)
    return ids_in(table, rows), prompts


def prompts_in(table: pl.DataFrame, rows: Rows) -> list[str]:
    """Return the prompts of a table, or refuse the first that is missing or empty."""
    if "prompt" not in table.columns and all(name in table.columns for name in ("instruction", "input")):
        table = table.with_columns(_alpaca_prompt().alias("prompt"))
    if "prompt" not in table.columns:
        raise RankError(f"{rows.name}: must have the column prompt, has {', '.join(table.columns)}")
    column = table.get_column("prompt")
    if column.dtype != pl.String:
        column = column.cast(pl.String)
    empty = column.str.strip_chars().str.len_bytes().fill_null(0) == 0
    if empty.any():
        row = empty.arg_max()
        assert row is not None
        was = "missing" if column[row] is None else repr(column[row])
        raise RankError(f"{rows.locate(row)}: prompt must be a text that is not empty, was {was}")
    return column.to_list()


def ids_in(table: pl.DataFrame, rows: Rows, *, required: bool = False) -> pl.Series:
    """Return the ids of a table, or refuse the first that is missing or there twice."""
    name = next((name for name in _IDS if name in table.columns), None)
    if name is None:
        if required:
            raise RankError(f"{rows.name}: must have the column id, has {', '.join(table.columns)}")
        return pl.Series("id", range(table.height), dtype=pl.Int64)
    column = table.get_column(name).alias("id")
    missing = column.is_null()
    if missing.any():
        row = missing.arg_max()
        assert row is not None
        raise RankError(f"{rows.locate(row)}: {name} must be there, was missing")
    repeated = ~column.is_first_distinct()
    if repeated.any():
        row = repeated.arg_max()
        assert row is not None
        raise RankError(f"{rows.locate(row)}: {name} must be in one row only, was {column[row]!r} again")
    return column


def _examples(table: pl.DataFrame, rows: Rows) -> tuple[pl.DataFrame, dict[str, int]]:
    name = next((name for name in _LENGTHS if name in table.columns), None)
    dropped: dict[str, int] = {}
    if name is None:
        if not all(column in table.columns for column in _ALPACA):
            raise RankError(
                f"{rows.name}: must have the column prompt and one of {', '.join(_LENGTHS)}, or those of "
                f"Alpaca "
                f"({', '.join(_ALPACA)}), has {', '.join(table.columns)}"
            )
        words = pl.col("output").fill_null("").str.count_matches(r"\S+").cast(pl.Float64)
        table = table.with_columns(_alpaca_prompt().alias("prompt"), words.alias("output_words"))
        name = "output_words"
        kept = (table.get_column(name) > 0).arg_true().to_numpy()
        if len(kept) < table.height:
            dropped["no output"] = table.height - len(kept)
            table, rows = table[kept.tolist()], rows.kept(kept)
    prompts = prompts_in(table, rows)
    lengths = table.get_column(name)
    numbers = lengths.cast(pl.Float64, strict=False)
    bad = ~(numbers.is_finite() & (numbers > 0)).fill_null(value=False)
    if bad.any():
        row = bad.arg_max()
        assert row is not None
        was = "missing" if lengths[row] is None else repr(lengths[row])
        raise RankError(f"{rows.locate(row)}: {name} must be a finite number above 0, was {was}")
    extra = [pl.col(each).cast(pl.String) for each in ("dataset", "model") if each in table.columns]
    return table.select(
        pl.Series("prompt", prompts, dtype=pl.String), numbers.alias("output_tokens"), *extra
    ), dropped


def _filled(name: str, value: str, part: pl.DataFrame) -> pl.Expr:
    return pl.col(name).fill_null(value) if name in part.columns else pl.lit(value).alias(name)


def _alpaca_prompt() -> pl.Expr:
    given = pl.col("input").fill_null("")
    return pl.col("instruction") + pl.when(given.str.len_bytes() > 0).then("\n\n" + given).otherwise(
        pl.lit("")
    )


def _joined(
    prompts: pl.DataFrame, rows: Rows, lengths: pl.DataFrame, length_rows: Rows
) -> tuple[pl.DataFrame, Rows]:
    """Join lengths to prompts by id; a row of the result is named by its row among the lengths."""
    ids = ids_in(prompts, rows, required=True).cast(pl.String)
    name = next((name for name in _IDS if name in lengths.columns), None)
    if name is None:
        raise RankError(f"{length_rows.name}: must have the column id, has {', '.join(lengths.columns)}")
    wanted = lengths.get_column(name).cast(pl.String)
    unknown = ~wanted.is_in(ids.to_list())
    if unknown.any():
        row = unknown.arg_max()
        assert row is not None
        raise RankError(
            f"{length_rows.locate(row)}: {name} must be of a prompt in {rows.name}, was {wanted[row]!r}"
        )
    own = [each for each in prompts.columns if each not in lengths.columns and each not in _IDS]
    left = lengths.with_columns(wanted.alias("__id"))
    right = prompts.select(own).with_columns(ids.alias("__id"))
    return left.join(right, on="__id", how="left", maintain_order="left").drop("__id"), length_rows
