"""How much of a trace's prompts a prefix cache could have."""

from __future__ import annotations

import numpy as np
import polars as pl

from paceline._arguments import typed
from paceline.errors import TraceError
from paceline.trace.answers import answer_blocks
from paceline.trace.model import Trace

__all__ = ["ideal_hit_rate"]


@typed(TraceError)
def ideal_hit_rate(trace: Trace, *, answers: bool = True) -> float:
    """Return the part of the prompt tokens that a cache without a limit has when each request arrives.

    Requests are taken one after another, in the order of the trace, so that each finds all that those before
    it had. A replay finds less: blocks are evicted, requests overlap, and there may be several instances.

    Parameters
    ----------
    trace
        With ``prefix`` or ``session``. Whole blocks of ``prefix_block_tokens`` count, or all tokens of a
        session's turn before.
    answers
        Whether answers are cached, too, and not only prompts.

    Raises
    ------
    TraceError
        If the trace has neither column.

    Examples
    --------
    >>> trace = Trace.from_columns(
    ...     arrival=[0, 1], prompt_tokens=[100, 200], output_tokens=[50, 1], session=["a", "a"]
    ... )
    >>> ideal_hit_rate(trace), ideal_hit_rate(trace, answers=False)  # 150 and 100 of 300 tokens
    (0.5, 0.3333333333333333)
    """
    frame = trace.frame
    total = float(frame.get_column("prompt_tokens").cast(pl.Int64).sum())
    if "prefix" in frame.columns and trace.prefix_block_tokens is not None:
        return _blocks_found(frame, trace.prefix_block_tokens, answers=answers) / total
    if "session" not in frame.columns:
        raise TraceError(f"{trace.name}: what prompts share is said by prefix or session, and it has neither")
    said = pl.col("prompt_tokens").cast(pl.Int64)
    before = (said + pl.col("output_tokens")).shift(1).over("session")
    found = before if answers else said.shift(1).over("session")
    known = pl.when(pl.col("session").is_not_null() & (said >= before)).then(found).otherwise(0)
    return float(frame.select(known.sum()).item()) / total


def _blocks_found(frame: pl.DataFrame, block_tokens: int, *, answers: bool) -> float:
    """Return the tokens of whole blocks of prompts that came in a request before."""
    rows = frame.select(pl.col("prefix").list.len().alias("blocks"), "prompt_tokens").with_row_index("row")
    ids = frame.get_column("prefix").explode(empty_as_null=False)
    row = np.repeat(rows["row"].to_numpy(), rows["blocks"].to_numpy())
    asked = pl.DataFrame({"id": ids, "row": row})
    had = [asked]
    if answers and "session" in frame.columns and (filled := answer_blocks(frame, block_tokens)):
        counts = np.diff(np.concatenate([[0], filled["output_ends"].astype(np.int64)]))
        had.append(
            pl.DataFrame({"id": filled["output_ids"], "row": np.repeat(rows["row"].to_numpy(), counts)})
        )
    first = pl.concat(had).group_by("id").agg(pl.col("row").min().alias("first"))
    hits = asked.join(first, on="id").filter(pl.col("first") < pl.col("row"))
    tokens = hits.group_by("row").len().join(rows, on="row")
    most = tokens.select(
        pl.min_horizontal(pl.col("len").cast(pl.Int64) * block_tokens, "prompt_tokens").sum()
    )
    return float(most.item() or 0)
