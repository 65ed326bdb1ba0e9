"""Tables of other tools: CSV, JSON Lines, a JSON array or Parquet, with names for their rows."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl

from paceline._atomic import new_file
from paceline._parquet import read_foreign
from paceline.errors import RankError, TraceError
from paceline.limits import Limits
from paceline.trace.delimited import read_delimited
from paceline.trace.opening import content
from paceline.trace.rows import Rows

__all__ = ["SUFFIXES", "read_table", "write_table"]

SUFFIXES: Final = ".csv, .jsonl, .json (any of them also with .gz or .zst) or .parquet"


def read_table(path: str | Path) -> tuple[pl.DataFrame, Rows]:
    """Read a table; the kind of file is taken from its name.

    Columns of CSV are text. Values of JSON that are neither text nor numbers become null, and a column of
    text and numbers becomes text.

    Raises
    ------
    RankError
        The file is none of these, or damaged, or it exceeds a limit.
    FileNotFoundError, PermissionError
        As the system says.
    """
    path = Path(path)
    limits = Limits.current()
    data = content(path, limits=limits, error=RankError)
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    if name.endswith(".parquet"):
        return read_foreign(data, str(path), error=RankError), Rows(
            str(path), lambda row: f"{path}, row {row + 1}"
        )
    if name.endswith(".csv"):
        return _csv(data, path, limits)
    if name.endswith(".jsonl"):
        return _json_lines(data, path, limits)
    if name.endswith(".json"):
        return _json_array(data, path, limits)
    raise RankError(f"{path}: the name of a table must end in {SUFFIXES}, was {path.name!r}")


def write_table(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a table, whole or not at all: .csv, .jsonl or .parquet, by its name.

    Raises
    ------
    RankError
        The name ends otherwise.
    """
    path = Path(path)
    buffer = io.BytesIO()
    if path.suffix == ".csv":
        frame.write_csv(buffer)
    elif path.suffix == ".jsonl":
        frame.write_ndjson(buffer)
    elif path.suffix == ".parquet":
        frame.write_parquet(buffer)
    else:
        raise RankError(
            f"{path}: the name of a written table must end in .csv, .jsonl or .parquet, was {path.name!r}"
        )
    with new_file(path) as draft:
        draft.write_bytes(buffer.getvalue())


def _csv(data: bytes, path: Path, limits: Limits) -> tuple[pl.DataFrame, Rows]:
    try:
        header = next(csv.reader(io.StringIO(data.split(b"\n", 1)[0].decode("utf-8-sig")), strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise RankError(f"{path}, line 1: is no CSV header in UTF-8: {error}") from error
    names = [name.strip() for name in header]
    if not names or len(set(names)) != len(names):
        raise RankError(f"{path}, line 1: must be a header of different names, was {header!r}")
    try:
        return read_delimited(data, str(path), tuple(names), limits)
    except TraceError as error:
        raise RankError(str(error)) from error


def _json_lines(data: bytes, path: Path, limits: Limits) -> tuple[pl.DataFrame, Rows]:
    decoder = msgspec.json.Decoder(dict[str, Any])
    entries, lines = [], []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            entries.append(decoder.decode(line))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise RankError(f"{path}, line {number}: must be one JSON object: {error}") from error
        lines.append(number)
    return _frame(entries, path, limits), Rows(str(path), lambda row: f"{path}, line {lines[row]}")


def _json_array(data: bytes, path: Path, limits: Limits) -> tuple[pl.DataFrame, Rows]:
    try:
        entries = msgspec.json.decode(data, type=list[dict[str, Any]])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise RankError(f"{path}: must be one JSON array of objects: {error}") from error
    return _frame(entries, path, limits), Rows(str(path), lambda row: f"{path}, entry {row + 1}")


def _frame(entries: list[dict[str, Any]], path: Path, limits: Limits) -> pl.DataFrame:
    if not entries:
        raise RankError(f"{path}: has no rows")
    names = list(dict.fromkeys(name for entry in entries for name in entry))
    if len(names) * len(entries) > limits.values:
        raise RankError(
            f"{path}: rows times fields {limits.over('values', f'{len(names) * len(entries):,}')}"
        )
    return pl.DataFrame([_column(name, [entry.get(name) for entry in entries]) for name in names])


def _column(name: str, values: list[Any]) -> pl.Series:
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int}:
        try:
            return pl.Series(name, values, dtype=pl.Int64)
        except (OverflowError, pl.exceptions.PolarsError):
            kinds = {float}
    if kinds <= {int, float}:
        return pl.Series(
            name, [None if value is None else float(value) for value in values], dtype=pl.Float64
        )
    texts = [str(value) if isinstance(value, str | int | float) else None for value in values]
    return pl.Series(name, texts, dtype=pl.String)
