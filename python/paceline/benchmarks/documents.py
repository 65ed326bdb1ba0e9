"""The documents of a benchmark's file: JSON, JSON Lines or YAML, in bounded memory.

JSON is read strictly first. SGLang and Python's ``json`` write ``Infinity`` and ``NaN``, which are not
JSON: where the strict reader refuses, Python's reads them.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from paceline.errors import TraceError
from paceline.limits import Limits
from paceline.trace.opening import content

__all__ = ["Document", "converted", "count_if", "number_if", "read_documents"]

T = TypeVar("T")

_BOM: Final = b"\xef\xbb\xbf"
_DEEPEST: Final = 64


class Document(msgspec.Struct, frozen=True):
    """One document of a file, with its name in errors."""

    where: str
    body: Any


def read_documents(path: Path, limits: Limits) -> list[Document]:
    """Return the documents of a file: one, or one for each line.

    Raises
    ------
    TraceError
        If it is none of the three, or exceeds a limit.
    """
    text = content(path, limits=limits).removeprefix(_BOM).strip()
    if not text:
        raise TraceError(f"{path}: is empty; a result has a JSON object")
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: must be UTF-8 text, was byte 0x{text[error.start]:02x}") from error
    # Each value but the first has a comma or a new line before it.
    values = text.count(b",") + text.count(b"\n") + 1
    if values > limits.values:
        raise TraceError(f"{path}: values {limits.over('values', f'{values:,}')}")
    if text[:1] not in (b"{", b"["):
        return [Document(str(path), _yaml(text, path))]
    whole, problem = _json(text)
    if problem is None:
        return [Document(str(path), whole)]
    lines = text.split(b"\n")
    if len(lines) == 1 or not lines[0].rstrip().endswith(b"}"):
        raise TraceError(f"{path}: must be a JSON object, {problem}")
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        body, problem = _json(line)
        if problem is not None:
            raise TraceError(f"{path}, line {number}: must be one JSON object, {problem}")
        found.append(Document(f"{path}, line {number}", body))
    return found


def converted(body: Any, kind: type[T], where: str) -> T:  # noqa: ANN401 - any JSON
    """Return a part of a document in the types of a struct.

    Raises
    ------
    TraceError
        If a field is of another type; the message names it.
    """
    try:
        return msgspec.convert(body, type=kind)
    except (msgspec.ValidationError, RecursionError, OverflowError) as error:
        said = str(error) or "it is nested too deeply"
        raise TraceError(f"{where}: {said[0].lower()}{said[1:]}") from error


def number_if(value: object, where: str) -> float | None:
    """Return a number of a document, or None for null.

    Raises
    ------
    TraceError
        If it is neither.
    """
    return None if value is None else converted(value, float, where)


def count_if(value: object, where: str) -> int | None:
    """Return a whole number of at least 1, or None for null and 0.

    Raises
    ------
    TraceError
        If it is neither.
    """
    count = None if value is None else converted(value, int, where)
    if count is not None and not 0 <= count < 2**31:
        raise TraceError(f"{where}: must be a whole number from 0 to {2**31 - 1:,}, was {count}")
    return count or None


def _json(text: bytes) -> tuple[Any, str | None]:
    """Return the value, or what is wrong with it."""
    try:
        return msgspec.json.decode(text), None
    except RecursionError:
        return None, "it is nested too deeply"
    except msgspec.MsgspecError as error:
        problem = str(error)
    if b"Infinity" not in text and b"NaN" not in text:
        return None, problem[0].lower() + problem[1:]
    try:
        return json.loads(text), None
    except (ValueError, RecursionError) as error:
        return None, str(error) or "it is nested too deeply"


def _yaml(text: bytes, path: Path) -> Any:  # noqa: ANN401 - any YAML
    try:
        yaml = import_module("yaml")
    except ImportError as error:
        raise TraceError(
            f"{path}: is not JSON; YAML needs PyYAML: pip install 'paceline[benchmarks]'"
        ) from error
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=loader):
            # A few references to references stand for more values than any memory holds.
            if isinstance(event, yaml.AliasEvent):
                raise TraceError(
                    f"{path}, line {event.start_mark.line + 1}: must have no YAML aliases, had one"
                )
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise TraceError(f"{path}, line {event.start_mark.line + 1}: is nested too deeply")
        return yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        if isinstance(error, TraceError):
            raise
        said = " ".join(str(error).split()) or "it is nested too deeply"
        raise TraceError(f"{path}: must be JSON or YAML: {said}") from error
