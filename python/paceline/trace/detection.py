"""Telling the format of a trace from its first line."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from paceline.errors import TraceError
from paceline.trace.schema import REQUIRED, missing_columns

__all__ = ["Format", "Recognised", "header", "recognise"]

Format: TypeAlias = Literal["azure", "burstgpt", "mooncake", "vidur", "paceline"]
Container: TypeAlias = Literal["csv", "jsonl", "parquet"]

_BOM: Final = b"\xef\xbb\xbf"

_FIELDS: Final[dict[Format, tuple[str, ...]]] = {
    "azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "burstgpt": ("Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"),
    "mooncake": ("timestamp", "input_length", "output_length"),
    "vidur": ("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
    "paceline": REQUIRED,
}

_CONTAINERS: Final[dict[Format, tuple[Container, ...]]] = {
    "azure": ("csv",),
    "burstgpt": ("csv",),
    "mooncake": ("jsonl",),
    "vidur": ("csv",),
    "paceline": ("csv", "jsonl", "parquet"),
}


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a content turned out to be; `text` is without a byte-order mark and without trailing newlines."""

    format: Format
    container: Container
    columns: tuple[str, ...]
    text: bytes


def recognise(data: bytes, name: str, wanted: str | None) -> Recognised:
    """Tell the format of decompressed content, or hold it to the `wanted` one.

    Raises
    ------
    TraceError
        The content is empty, not UTF-8, or has not the columns of any format (of the `wanted` one).
    """
    if wanted is not None and wanted not in get_args(Format):
        raise TraceError(f"format must be one of {', '.join(get_args(Format))}, was {wanted!r}")
    if data.startswith(b"PAR1"):
        if wanted not in (None, "paceline"):
            raise TraceError(f"{name}: is Parquet, which format {wanted!r} never is")
        return Recognised("paceline", "parquet", (), data)
    text, first = _opened(data, name)
    container, columns = _first_line(first, name)
    format_ = _matching(columns, container, name, wanted)
    return Recognised(format_, container, columns, text)


def header(data: bytes, name: str) -> tuple[bytes, tuple[str, ...]]:
    """Give the text and the columns of decompressed content that must be CSV.

    Raises
    ------
    TraceError
        It is not.
    """
    text, first = _opened(data, name)
    container, columns = _first_line(first, name)
    if container != "csv":
        raise TraceError(f"{name}: must be CSV, was {container.upper()}")
    return text, columns


def _opened(data: bytes, name: str) -> tuple[bytes, bytes]:
    """Give the text without a byte-order mark and trailing newlines, and its first line."""
    text = data.removeprefix(_BOM).rstrip(b"\r\n")
    if not text.strip():
        raise TraceError(f"{name}: is empty; a trace needs a header or a JSON object a line")
    _check_utf8(text, name)
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


def _first_line(first: bytes, name: str) -> tuple[Container, tuple[str, ...]]:
    if first.lstrip().startswith(b"{"):
        try:
            row = msgspec.json.decode(first, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise TraceError(f"{name}, line 1: must be one JSON object, {_lowered(error)}") from error
        return "jsonl", tuple(row)
    if first.lstrip().startswith(b"["):
        raise TraceError(f"{name}, line 1: is a JSON array; a trace in JSON has one object a line")
    try:
        columns = tuple(next(csv.reader([first.decode().rstrip("\r")]), []))
    except csv.Error as error:
        raise TraceError(f"{name}, line 1: is no CSV header: {error}") from error
    twice = [column for column in columns if columns.count(column) > 1]
    if twice:
        raise TraceError(f"{name}, line 1: has the column {_short(twice[0])} more than once")
    return "csv", columns


def _matching(columns: tuple[str, ...], container: Container, name: str, wanted: str | None) -> Format:
    found: list[tuple[int, Format]] = []
    for format_, fields in _FIELDS.items():
        if wanted is not None and wanted != format_:
            continue
        if container in _CONTAINERS[format_]:
            found.append((sum(field in columns for field in fields), format_))
    if not found:
        raise TraceError(f"{name}: is {container.upper()}, which format {wanted!r} never is")
    known, nearest = max(found, key=lambda pair: pair[0] / len(_FIELDS[pair[1]]))
    fields = _FIELDS[nearest]
    if known == len(fields):
        return nearest
    if known == 0 and wanted is None:
        msg = (
            f"{name}, line 1: is no trace that Paceline knows; the columns of its own schema are "
            f"{', '.join(REQUIRED)}, was {_short(', '.join(columns))}"
        )
        raise TraceError(msg)
    missing = missing_columns(list(columns), fields)
    msg = f"{name}, line 1: missing {missing} (read as {nearest}); was {_short(', '.join(columns))}"
    raise TraceError(msg)


def _short(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:97]}...")


def _lowered(error: Exception) -> str:
    said = str(error) or type(error).__name__
    return said[0].lower() + said[1:]
