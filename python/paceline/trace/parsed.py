"""The output of a format's reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from paceline.trace.rows import Rows

__all__ = ["Parsed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """The rows of a file in file order, before the schema's checks.

    Attributes
    ----------
    frame
        Columns of the schema; ``output_tokens`` may still be 0.
    rows
        Names a row of the frame by its line.
    prefix_block_tokens
        Prompt tokens of one prefix id, where there are any.
    detail
        The layout, where a format has several.
    dropped
        Requests of the file that are not in the frame, counted by reason.
    """

    frame: pl.DataFrame
    rows: Rows
    prefix_block_tokens: int | None = None
    detail: str = ""
    dropped: Mapping[str, int] = field(default_factory=dict)
