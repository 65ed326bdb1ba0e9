"""JSON Lines as lists of typed rows, with the line each row came from."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgspec

from paceline.errors import TraceError
from paceline.limits import Limits
from paceline.trace.rows import Rows

__all__ = ["Number", "read_json_lines"]

Row = TypeVar("Row", bound=msgspec.Struct)
Number = int | float

# Decoding in parts keeps the Python objects of a long trace from being alive all at once.
_PART_BYTES: Final = 1 << 24


def read_json_lines(
    text: bytes, name: str, row: type[Row], limits: Limits
) -> tuple[Iterator[list[Row]], Rows]:
    """Decode one object a line, in parts; blank lines are passed over.

    Returns
    -------
    parts
        Lists of rows. Reading on raises `TraceError` at a line that is not such an object.
    rows
        Names a row by its line.

    Raises
    ------
    TraceError
        There are more fields and items of lists than `limits` allow.
    """
    # A line has the fields that its row type has, given or not. Four items of a list take a value's memory,
    # and a comma follows each item.
    values = (text.count(b"\n") + 1) * len(row.__struct_fields__) + text.count(b",") // 4
    if values > limits.values:
        raise TraceError(f"{name}: lines times fields {limits.over('values', f'{values:,}')}")
    rows = Rows(name, lambda position: f"{name}, line {_line_of(text, position)}")
    return _parts(text, name, msgspec.json.Decoder(row)), rows


def _parts(text: bytes, name: str, decoder: msgspec.json.Decoder[Row]) -> Iterator[list[Row]]:
    start, line = 0, 1
    while start < len(text):
        end = text.find(b"\n", start + _PART_BYTES)
        part = text[start : end if end >= 0 else len(text)]
        try:
            decoded = decoder.decode_lines(part)
        except (msgspec.MsgspecError, RecursionError):
            decoded = []
        count = part.count(b"\n") + 1
        # Fewer or more objects than lines: blank lines, two objects in a line, or one over several.
        yield decoded if len(decoded) == count else _one_by_one(part, line, name, decoder)
        start += len(part) + 1
        line += count


def _one_by_one(part: bytes, line: int, name: str, decoder: msgspec.json.Decoder[Row]) -> list[Row]:
    decoded = []
    for number, text in enumerate(part.split(b"\n"), start=line):
        if not text.strip():
            continue
        try:
            decoded.append(decoder.decode(text))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise TraceError(f"{name}, line {number}: {_explained(text, error)}") from error
    return decoded


def _explained(text: bytes, error: Exception) -> str:
    said = str(error) or type(error).__name__
    if isinstance(error, RecursionError):
        return "must be one flat JSON object, was nested too deeply"
    if re.search(rb"NaN|Infinity", text):
        return f"{said}; JSON has no NaN and no Infinity, and numbers must be finite"
    field = re.search(r" - at `\$\.([^`]+)`$", said)
    if field is None:
        return said
    key = field.group(1)
    try:
        row = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return said  # after the field the line is no JSON either
    shown = repr(row.get(re.split(r"[.\[]", key)[0]))
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return f"{key} must be {said[: field.start()].removeprefix('Expected ').replace('`', '')}, was {shown}"


def _line_of(text: bytes, position: int) -> int:
    seen = -1
    for number, line in enumerate(io.BytesIO(text), start=1):
        seen += bool(line.strip())
        if seen == position:
            return number
    return position + 1
