"""A picture of a report with its table, and the sections that hold them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from paceline.showing.cell import cell

if TYPE_CHECKING:
    from paceline.report.charts.kit import Chart

__all__ = ["Figure", "Section", "Table", "csv_of", "table_of"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table as text.

    Attributes
    ----------
    head
        The headings.
    rows
        The cells of each row.
    words
        How many of the first columns are words; the others are numbers.
    note
        What the table leaves out.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart, its table, or both, under one title.

    Attributes
    ----------
    title
        What is shown.
    note
        How to read it, in a sentence or two.
    chart
        The picture; None for a table alone, and beside panels.
    panels
        Several small pictures on equal axes in place of one, each with its name.
    table
        The numbers of the picture.
    wide
        Whether it takes the whole width of the page.
    """

    title: str
    table: Table
    note: str = ""
    chart: Chart | None = None
    panels: tuple[tuple[str, Chart], ...] = ()
    wide: bool = False

    @property
    def charts(self) -> tuple[tuple[str, Chart], ...]:
        """The pictures with their names; a picture that is alone has none."""
        return self.panels if self.chart is None else (("", self.chart), *self.panels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A tab of the report.

    Attributes
    ----------
    name
        The identifier in the page.
    title
        The name of the tab.
    figures
        Its pictures and tables, in order.
    text
        Paragraphs before them.
    """

    name: str
    title: str
    figures: tuple[Figure, ...]
    text: tuple[str, ...] = field(default=())


def csv_of(table: Table) -> str:
    """Return a table as CSV, numbers without separators of thousands."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.head)
    for row in table.rows:
        numbers = (value.replace(",", "") for value in row[table.words :])
        writer.writerow((*row[: table.words], *numbers))
    return text.getvalue()


def table_of(
    frame: pl.DataFrame, head: Sequence[str] | None = None, *, words: int = 1, most: int = 400, note: str = ""
) -> Table:
    """Return a frame as a table of at most so many rows, evenly chosen if the frame has more."""
    if frame.height > most:
        every = -(-frame.height // most)
        note = f"Every {every}th of {frame.height:,} rows. {note}".rstrip()
        frame = frame.gather_every(every)
    rows = tuple(tuple(cell(value) for value in row) for row in frame.iter_rows())
    return Table(tuple(head or frame.columns), rows, words, note)
