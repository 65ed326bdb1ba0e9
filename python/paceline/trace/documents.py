"""JSON that is one document, or one object a line, as typed objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from paceline.errors import TraceError
from paceline.limits import Limits
from paceline.trace.detection import Recognised
from paceline.trace.jsonlines import read_json_lines
from paceline.trace.rows import Rows

__all__ = ["read_objects"]

Document = TypeVar("Document", bound=msgspec.Struct)


def read_objects(found: Recognised, name: str, kind: type[Document]) -> tuple[Iterator[Document], Rows]:
    """Decode the objects of a content: its lines, or the whole of it.

    Returns
    -------
    objects
        Reading on raises `TraceError` at one that is not of that kind.
    rows
        Names an object: a line, or the document's name alone.

    Raises
    ------
    TraceError
        There are more values than limits allow.
    """
    if found.container == "jsonl":
        parts, rows = read_json_lines(found.text, name, kind, found.limits)
        return (row for part in parts for row in part), rows
    _check_values(found.text, name, found.limits)
    return _whole(found.text, name, kind), Rows(name, lambda _: name)


def _check_values(text: bytes, name: str, limits: Limits) -> None:
    # A comma follows each value but the last of its object or list.
    values = text.count(b",") + 1
    if values > limits.values:
        raise TraceError(f"{name}: values of the document {limits.over('values', f'{values:,}')}")


def _whole(text: bytes, name: str, kind: type[Document]) -> Iterator[Document]:
    try:
        yield msgspec.json.decode(text, type=kind)
    except RecursionError as error:
        raise TraceError(f"{name}: must be nested less deeply") from error
    except msgspec.MsgspecError as error:
        raise TraceError(f"{name}: is not such a document: {error}") from error
