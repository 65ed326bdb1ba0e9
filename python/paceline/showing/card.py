"""Small HTML for notebooks: a title, a table of facts, and longer texts that open on demand.

All texts are escaped. It needs no library beyond Paceline's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["card"]

_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CELL = "text-align:{};padding:2px 10px;vertical-align:top"


def card(
    title: str,
    facts: Iterable[tuple[str, str]] = (),
    *,
    head: Sequence[str] = (),
    rows: Iterable[Sequence[str]] = (),
    texts: Iterable[tuple[str, str]] = (),
) -> str:
    """Return HTML.

    Parameters
    ----------
    title
        The first line.
    facts
        Names and values, one pair a row.
    head, rows
        A table: its headings and its rows, the first column of words, the others of numbers.
    texts
        Titles and texts that are folded until they are opened.

    Examples
    --------
    >>> card("a < b", [("x", "1")])
    '<div><b>a &lt; b</b><table style="..."><tbody><tr>...</table></div>'
    """
    parts = [f"<b>{escape(title)}</b>"]
    facts = list(facts)
    if facts:
        parts.append(_table((), facts, numbers=False))
    rows = list(rows)
    if rows:
        parts.append(_table(head, rows, numbers=True))
    parts += [
        f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>"
        for name, text in texts
    ]
    return f"<div>{''.join(parts)}</div>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool) -> str:
    def cells(values: Sequence[str], *, heading: bool) -> str:
        found = []
        for place, value in enumerate(values):
            tag = "th" if heading or place == 0 else "td"
            side = "right" if numbers and place else "left"
            found.append(f'<{tag} style="{_CELL.format(side)}">{escape(value)}</{tag}>')
        return f"<tr>{''.join(found)}</tr>"

    top = f"<thead>{cells(head, heading=True)}</thead>" if head else ""
    body = "".join(cells(row, heading=False) for row in rows)
    return f'<table style="{_TABLE}">{top}<tbody>{body}</tbody></table>'
