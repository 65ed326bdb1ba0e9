"""Writing to the terminal: tables, JSON, and complaints."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["complain", "console", "note", "print_json", "table"]


def complain(message: str) -> None:
    """Write one line about what went wrong to standard error, unless that is closed."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"paceline: {message}", file=sys.stderr)


def note(message: str) -> None:
    """Write one line of no consequence to standard error, unless that is closed."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(message, file=sys.stderr)


def print_json(document: Any) -> None:  # noqa: ANN401 - whatever JSON can say
    """Write one JSON document to standard output; what is not a number becomes null."""
    print(json.dumps(_finite(document), ensure_ascii=False, allow_nan=False))


def console() -> Console:
    """Return standard output as rich sees it: plain and as wide as need be unless it is a terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 200
    return Console(highlight=False, soft_wrap=False, width=width)


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: int = 1,
    vertical: Literal["top", "bottom"] = "bottom",
) -> Table:
    """Lay out rows of text under headings, the first `left` columns to the left and others to the right."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    cells = [tuple(row) for row in rows]
    for index, heading in enumerate(headings):
        justify: Literal["left", "right"] = "left" if index < left else "right"
        # On a narrow terminal headings break, but not the names in the first column.
        name_width = max((len(row[0]) for row in cells), default=0) if index == 0 else None
        made.add_column(Text(heading), justify=justify, vertical=vertical, min_width=name_width)
    for row in cells:
        made.add_row(*(Text(cell) for cell in row))
    return made


def _finite(document: Any) -> Any:  # noqa: ANN401
    if isinstance(document, float):
        return document if math.isfinite(document) else None
    if isinstance(document, dict):
        return {str(key): _finite(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [_finite(value) for value in document]
    return document
