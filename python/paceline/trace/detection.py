"""Detecting the format of a trace from its first line, or from the keys of a document."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

import msgspec
import polars as pl

from paceline._parquet import check_foreign
from paceline.errors import TraceError
from paceline.limits import Limits
from paceline.trace.choices import Choices
from paceline.trace.frames import names_of
from paceline.trace.known import CONTAINERS, FIELDS, Container, Format
from paceline.trace.schema import REQUIRED
from paceline.trace.seal import check_seal

__all__ = ["Format", "Recognised", "header", "recognise"]

_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a content turned out to be; `text` is without a byte-order mark and without trailing newlines.

    `columns` are the names of the schema where `named` says which of the file's they are. `choices` say how
    fields are to be taken.
    """

    format: Format
    container: Container
    columns: tuple[str, ...]
    text: bytes
    limits: Limits
    named: Mapping[str, str] = field(default_factory=dict)
    choices: Choices = field(default_factory=Choices)


def recognise(
    data: bytes,
    name: str,
    wanted: str | None,
    limits: Limits | None = None,
    named: Mapping[str, str] | None = None,
) -> Recognised:
    """Detect the format of decompressed content, or check that it is the `wanted` one.

    Raises
    ------
    TraceError
        The content is empty, not UTF-8, exceeds one of the `limits`, or has not the columns of any format
        (of the `wanted` one).
    """
    limits = Limits.current() if limits is None else limits
    named = named or {}
    if named:
        if wanted not in (None, "paceline"):
            raise TraceError(f"columns are of format 'paceline', which names its own, was format {wanted!r}")
        wanted = "paceline"
    if wanted is not None and wanted not in get_args(Format):
        raise TraceError(f"format must be one of {', '.join(get_args(Format))}, was {wanted!r}")
    if data.startswith(b"PAR1"):
        columns = _parquet_columns(data, name, limits)
        if wanted is None:
            wanted = "baseten" if all(field in columns for field in FIELDS["baseten"]) else "paceline"
        elif "parquet" not in CONTAINERS[wanted]:  # type: ignore[index]
            raise TraceError(f"{name}: is Parquet, which format {wanted!r} never is")
        if wanted != "paceline":
            _matching(columns, "parquet", name, wanted)
        return Recognised(wanted, "parquet", columns, data, limits, named)  # type: ignore[arg-type]
    text, first = _opened(data, name, limits)
    container, columns = _first_object(text, first, name, limits)
    if named:
        ours = names_of(named, columns, name)
        columns = tuple(ours.get(column, column) for column in columns)
    format_ = _matching(columns, container, name, wanted)
    return Recognised(format_, container, columns, text, limits, named)


def header(data: bytes, name: str, limits: Limits) -> tuple[bytes, tuple[str, ...]]:
    """Give the text and the columns of decompressed content that must be CSV.

    Raises
    ------
    TraceError
        It is not, or exceeds one of the `limits`.
    """
    text, first = _opened(data, name, limits)
    container, columns = _first_line(first, name, limits)
    if container != "csv":
        raise TraceError(f"{name}: must be CSV, was {container.upper()}")
    return text, columns


def _parquet_columns(data: bytes, name: str, limits: Limits) -> tuple[str, ...]:
    """Return the names of the columns of a Parquet file, after the check that it can be parsed."""
    if not check_seal(data, name):
        check_foreign(data, name, error=TraceError, limits=limits)
    try:
        return tuple(pl.read_parquet_schema(io.BytesIO(data)))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise TraceError(f"{name}: is no readable Parquet file: {error}") from error


def _opened(data: bytes, name: str, limits: Limits) -> tuple[bytes, bytes]:
    """Give the text without a byte-order mark and trailing newlines, and its first line."""
    text = data.removeprefix(_BOM).rstrip(b"\r\n")
    if not text.strip():
        raise TraceError(f"{name}: is empty; a trace needs a header or a JSON object a line")
    _check_utf8(text, name)
    _check_lines(text, name, limits)
    end = text.find(b"\n")
    return text, text if end < 0 else text[:end]


def _check_utf8(text: bytes, name: str) -> None:
    if text.isascii():
        return
    try:
        text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        byte = text[error.start]
        raise TraceError(f"{name}, line {line}: must be UTF-8 text, was byte 0x{byte:02x}") from error


def _check_lines(text: bytes, name: str, limits: Limits) -> None:
    """Refuse a line that is too long: look for the last line end within reach of each one before."""
    most, start = limits.line_bytes, 0
    while len(text) - start > most:
        end = text.rfind(b"\n", start, start + most + 1)
        if end < 0:
            line = text.count(b"\n", 0, start) + 1
            raise TraceError(f"{name}, line {line}: bytes of the line {limits.over('line_bytes', 'more')}")
        start = end + 1


def _first_object(text: bytes, first: bytes, name: str, limits: Limits) -> tuple[Container, tuple[str, ...]]:
    """Give the container and the columns of the first line, or of a document over several lines."""
    try:
        return _first_line(first, name, limits)
    except TraceError:
        if not text.lstrip().startswith(b"{") or len(first) == len(text):
            raise
        try:
            row = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        except (msgspec.MsgspecError, RecursionError):
            row = {}
        if not row:
            raise
    _check_columns(len(row), name, limits)
    return "json", tuple(row)


def _first_line(first: bytes, name: str, limits: Limits) -> tuple[Container, tuple[str, ...]]:
    if first.lstrip().startswith(b"{"):
        try:
            row = msgspec.json.decode(first, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise TraceError(f"{name}, line 1: must be one JSON object, {_lowered(error)}") from error
        _check_columns(len(row), name, limits)
        return "jsonl", tuple(row)
    if first.lstrip().startswith(b"["):
        raise TraceError(f"{name}, line 1: is a JSON array; a trace in JSON has one object a line")
    try:
        columns = tuple(next(csv.reader([first.decode().rstrip("\r")]), []))
    except csv.Error as error:
        raise TraceError(f"{name}, line 1: is no CSV header: {error}") from error
    _check_columns(len(columns), name, limits)
    twice = next((column for column, count in Counter(columns).items() if count > 1), None)
    if twice is not None:
        raise TraceError(f"{name}, line 1: has the column {_short(twice)} more than once")
    return "csv", columns


def _check_columns(count: int, name: str, limits: Limits) -> None:
    if count > limits.columns:
        raise TraceError(f"{name}, line 1: columns {limits.over('columns', f'{count:,}')}")


def _matching(columns: tuple[str, ...], container: Container, name: str, wanted: str | None) -> Format:
    found: list[tuple[int, Format]] = []
    for format_, fields in FIELDS.items():
        if wanted is not None and wanted != format_:
            continue
        if container in CONTAINERS[format_]:
            found.append((sum(_has(columns, field) for field in fields), format_))
    if not found:
        raise TraceError(f"{name}: is {container.upper()}, which format {wanted!r} never is")
    known, nearest = max(found, key=lambda pair: (pair[0] / len(FIELDS[pair[1]]), pair[0]))
    fields = FIELDS[nearest]
    if known == len(fields):
        return nearest
    if known == 0 and wanted is None:
        msg = (
            f"{name}, line 1: is no trace that Paceline knows; the columns of its own schema are "
            f"{', '.join(REQUIRED)}, was {_short(', '.join(columns))}"
        )
        raise TraceError(msg)
    missing = ", ".join(field.replace("|", " or ") for field in fields if not _has(columns, field))
    msg = f"{name}, line 1: missing {missing} (read as {nearest}); was {_short(', '.join(columns))}"
    raise TraceError(msg)


def _has(columns: tuple[str, ...], field: str) -> bool:
    return any(name in columns for name in field.split("|"))


def _short(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:97]}...")


def _lowered(error: Exception) -> str:
    said = str(error) or type(error).__name__
    return said[0].lower() + said[1:]
