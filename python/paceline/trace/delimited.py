"""CSV as columns of text, with the line each row came from."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import polars as pl

from paceline.errors import TraceError
from paceline.limits import Limits
from paceline.trace.rows import Rows

__all__ = ["read_delimited"]


def read_delimited(
    text: bytes, name: str, columns: tuple[str, ...], limits: Limits
) -> tuple[pl.DataFrame, Rows]:
    """Read UTF-8 CSV with a header into text columns; an empty field is null.

    Raises
    ------
    TraceError
        There are no rows, a row has too many fields, a quote is not closed, or there are more fields than
        `limits` allow.
    """
    # Every line may be a row of all columns, however short it is: missing fields are null.
    values = (text.count(b"\n") + 1) * len(columns)
    if values > limits.values:
        raise TraceError(f"{name}: lines times columns {limits.over('values', f'{values:,}')}")
    rows = Rows(name, lambda row: f"{name}, line {_line_of(text, row)}")
    try:
        frame = pl.read_csv(io.BytesIO(text), infer_schema=False).rechunk()
    except pl.exceptions.NoDataError as error:
        raise TraceError(f"{name}: has no rows") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _explained(text, name, len(columns)) from error
    if frame.width != len(columns):
        raise TraceError(f"{name}, line 1: is no CSV header")
    frame.columns = list(columns)
    if frame.height == 0:
        raise TraceError(f"{name}: has a header and no rows")
    return frame, rows


def _records(text: bytes) -> Iterator[tuple[int, list[str]]]:
    """Give each record after the header with the line that it starts on."""
    # A wrapper decodes as it goes: the text as one string would take four times its bytes.
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(text), encoding="utf-8", newline=""), strict=True)
    next(reader)
    start = reader.line_num + 1
    for record in reader:
        yield start, record
        start = reader.line_num + 1


def _line_of(text: bytes, row: int) -> int:
    if b'"' not in text:
        return row + 2
    for position, (line, _) in enumerate(_records(text)):
        if position == row:
            return line
    return row + 2


def _explained(text: bytes, name: str, width: int) -> TraceError:
    line = 1
    try:
        for line, record in _records(text):
            if len(record) > width:
                was = len(record)
                return TraceError(
                    f"{name}, line {line}: must have {width} fields as the header has, was {was}"
                )
    except csv.Error as error:
        return TraceError(f"{name}, after line {line}: is no valid CSV: {error}")
    return TraceError(f"{name}: is no valid CSV; look for a quote that is not closed")
