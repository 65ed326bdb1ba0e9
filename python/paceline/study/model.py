"""What a study is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = ["Draw", "Fact", "Facts", "Figure", "Kind", "Page", "Part", "Study", "Table"]

#: How a number of ours came about: fitted to the paper's, predicted without it, given to us by it, or read
#: in the one of several ways that comes nearest to it.
Kind: TypeAlias = Literal["fitted", "predicted", "given", "chosen to meet it"]

#: Draws data into an empty matplotlib figure.
Draw: TypeAlias = "Callable[[matplotlib.figure.Figure, pl.DataFrame], None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A number of the paper and ours.

    Parameters
    ----------
    name
        What it is a number of, the same in every run.
    ours
        What we came to; ``None`` where there is nothing of ours.
    kind
        Whether ours was fitted to the paper's, predicted, taken from it, or read so as to meet it.
    paper
        What the paper says; ``None`` where it says nothing that could be compared.
    unit
        Of both.
    within
        How far ours may be off, as a share of the paper's; or None.
    note
        Why the two differ, or how to read them.

    Examples
    --------
    >>> fact = Fact(name="mean TTFT", ours=1.2, paper=1.0, unit="s", kind="predicted", within=0.15)
    >>> round(fact.off, 3), fact.holds
    (0.2, False)
    """

    name: str
    ours: float | None
    kind: Kind
    paper: float | None = None
    unit: str = ""
    within: float | None = None
    note: str = ""

    @property
    def off(self) -> float | None:
        """Ours over the paper's, less 1."""
        if self.ours is None or not self.paper:
            return None
        return self.ours / self.paper - 1

    @property
    def holds(self) -> bool | None:
        """Whether ours is as close as it should be; ``None`` where nothing was asked."""
        if self.within is None or self.off is None:
            return None
        return abs(self.off) <= self.within


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Rows under headings.

    Parameters
    ----------
    name
        Of the file, lower-case and dashed, unlike any other in its study.
    caption
        What it shows, in a line.
    frame
        The rows. Columns are headings, their units in them.
    formats
        How to print a column, as a format specification (``".1f"``); others as polars would.
    """

    name: str
    caption: str
    frame: pl.DataFrame
    formats: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Facts:
    """Numbers of the paper beside ours, as a table.

    Parameters
    ----------
    name, caption
        As of a :class:`Table`.
    facts
        A row each.
    """

    name: str
    caption: str
    facts: tuple[Fact, ...]

    def table(self) -> Table:
        """Return them as a table, a row each."""
        frame = pl.DataFrame(
            {
                "figure": [fact.name for fact in self.facts],
                "unit": [fact.unit for fact in self.facts],
                "paper": [fact.paper for fact in self.facts],
                "ours": [fact.ours for fact in self.facts],
                "off": [fact.off for fact in self.facts],
                "ours is": [fact.kind for fact in self.facts],
                "note": [fact.note for fact in self.facts],
            },
            schema_overrides={"paper": pl.Float64, "ours": pl.Float64, "off": pl.Float64},
        )
        return Table(
            name=self.name,
            caption=self.caption,
            frame=frame,
            formats={"paper": ".4g", "ours": ".4g", "off": "+.1%"},
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Figure:
    """A picture, and the data that it draws.

    Parameters
    ----------
    name, caption
        As of a :class:`Table`.
    data
        All that is drawn, written beside the picture as CSV.
    draw
        Draws ``data`` into an empty figure. It must not depend on anything else.
    size
        Inches.
    """

    name: str
    caption: str
    data: pl.DataFrame
    draw: Draw
    size: tuple[float, float] = (7.0, 4.0)


#: A page is text in Markdown, tables, facts and figures, in order.
Part: TypeAlias = str | Table | Facts | Figure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Page:
    """One question and its answer.

    Parameters
    ----------
    name
        Lower-case and dashed, unlike any other in its study.
    title
        Its heading.
    parts
        What it says and shows.
    """

    name: str
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """An evaluation done again.

    Parameters
    ----------
    name
        As on the command line.
    title
        Its heading.
    source
        The paper, and where its numbers stand.
    pages
        In order.
    quick
        Whether it was run on fewer requests than it should be, so that its numbers are rough.
    """

    name: str
    title: str
    source: str
    pages: tuple[Page, ...]
    quick: bool = False

    def page(self, name: str) -> Page:
        """Return a page by its name."""
        return next(page for page in self.pages if page.name == name)

    def facts(self) -> Iterator[Fact]:
        """Yield all facts of all pages, in order."""
        for page in self.pages:
            for part in page.parts:
                if isinstance(part, Facts):
                    yield from part.facts
