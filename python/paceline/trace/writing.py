"""Writing a trace in Paceline's own schema, whole or not at all."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import polars as pl
import zstandard

from paceline._atomic import new_file
from paceline.errors import TraceError
from paceline.trace.seal import sealed

__all__ = ["write_frame"]


def write_frame(frame: pl.DataFrame, path: Path, *, prefix_block_tokens: int | None) -> None:
    """Write a checked frame; see `Trace.write`."""
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    packed = path.name.removeprefix(name)
    if prefix_block_tokens is not None:
        frame = frame.with_columns(pl.lit(prefix_block_tokens, dtype=pl.UInt32).alias("prefix_block_tokens"))
    buffer = io.BytesIO()
    if name.endswith(".csv"):
        if "parents" in frame.columns:
            _check_spaces(frame, path)
        lists = [name for name in ("prefix", "parents") if name in frame.columns]
        frame = frame.with_columns(pl.col(lists).cast(pl.List(pl.String)).list.join(" "))
        nested = [name for name, dtype in frame.schema.items() if dtype.is_nested()]
        if nested:
            raise TraceError(f"{path}: CSV cannot hold the lists of column {nested[0]!r}; write .parquet")
        frame.write_csv(buffer)
    elif name.endswith(".jsonl"):
        frame.write_ndjson(buffer)
    elif name.endswith(".parquet") and not packed:
        frame.write_parquet(buffer)
    else:
        suffixes = ".csv, .jsonl (either also with .gz or .zst) or .parquet"
        raise TraceError(f"{path}: the name of a written trace must end in {suffixes}, was {path.name!r}")
    data = buffer.getvalue()
    if name.endswith(".parquet"):
        data = sealed(data)
    if packed == ".gz":
        data = gzip.compress(data, mtime=0)
    elif packed == ".zst":
        data = zstandard.ZstdCompressor().compress(data)
    with new_file(path) as draft:
        draft.write_bytes(data)


def _check_spaces(frame: pl.DataFrame, path: Path) -> None:
    """Refuse ids with spaces, which part the ids of parents in CSV."""
    spaced = frame.get_column("request_id").drop_nulls()
    spaced = spaced.filter(spaced.str.contains(" ", literal=True))
    if len(spaced):
        raise TraceError(
            f"{path}: CSV parts the ids of parents by spaces, and request_id {spaced[0]!r} has one; write "
            ".jsonl or .parquet"
        )
