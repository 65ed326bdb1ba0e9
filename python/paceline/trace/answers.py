"""The blocks that answers fill, as far as the turns after them tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

__all__ = ["answer_blocks"]


def answer_blocks(frame: pl.DataFrame, block_tokens: int) -> dict[str, Any]:
    """Return the ids of the blocks that answers fill, for traces with sessions and ids of prompts.

    The prompt of the next turn of a session starts with the prompt and the answer before it. Where the ids
    say that it does (it is long enough, and has the last full block of the prompt before), its further ids
    are those of the blocks that the answer fills. So the next turn finds the answer in a prefix cache, as it
    does in a trace with sessions alone.

    Parameters
    ----------
    frame
        A trace's rows, with ``session`` and ``prefix``.
    block_tokens
        Tokens of one id.

    Returns
    -------
    dict
        ``output_ends`` and ``output_ids`` as the engine takes them; empty if no turn continues another.
    """
    prompt = frame.get_column("prompt_tokens").to_numpy().astype(np.int64)
    total = prompt + frame.get_column("output_tokens").to_numpy()
    full, until = prompt // block_tokens, total // block_tokens
    lengths = frame.get_column("prefix").list.len().to_numpy().astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    ids = frame.get_column("prefix").explode(empty_as_null=False).to_numpy()
    row, following = _consecutive(frame.get_column("session"))
    fits = (
        (prompt[following] >= total[row])
        & (lengths[following] >= until[row])
        & (lengths[row] >= full[row])
        & (until[row] > full[row])
    )
    row, following = row[fits], following[fits]
    last = full[row] - 1
    known = last >= 0
    same = np.ones(len(row), dtype=np.bool_)
    same[known] = ids[(starts[row] + last)[known]] == ids[(starts[following] + last)[known]]
    row, following = row[same], following[same]
    if not len(row):
        return {}
    filled = np.zeros(frame.height, dtype=np.int64)
    filled[row] = until[row] - full[row]
    order = np.argsort(row, kind="stable")
    counts = filled[row[order]]
    begins = (starts[following] + full[row])[order]
    place = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return {
        "output_ends": np.cumsum(filled).astype(np.uint64),
        "output_ids": ids[np.repeat(begins, counts) + place],
    }


def _consecutive(sessions: pl.Series) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the rows that another row of their session follows, and those that follow them."""
    rows = pl.DataFrame({"session": sessions}).with_row_index("row").drop_nulls()
    pairs = rows.with_columns(pl.col("row").shift(-1).over("session").alias("next")).drop_nulls()
    found = [pairs.get_column(name).to_numpy().astype(np.int64) for name in ("row", "next")]
    return found[0], found[1]
