"""What a study is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl

from paceline.study.paper import Stated

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = ["Draw", "Fact", "Facts", "Figure", "Kind", "Page", "Part", "Study", "Table", "printed"]

#: How a number of ours came about: fitted to the paper's number, predicted without it, taken from the paper,
#: or computed by the one of several readings that comes nearest to it.
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
        Our number; ``None`` where there is none.
    kind
        Whether ours was fitted to the paper's, predicted, taken from it, or read so as to meet it.
    paper
        The paper's number; ``None`` where it states none that can be compared.
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

    @classmethod
    def compare(
        cls,
        stated: Stated,
        ours: float | None,
        kind: Kind,
        *,
        name: str = "",
        within: float | None = None,
        notes: Iterable[str] = (),
    ) -> Fact:
        """Hold a number of ours against one of the paper's.

        Parameters
        ----------
        stated
            The paper's; its unit is that of ours too.
        ours, kind, within
            As of a `Fact`.
        name
            If the paper's number has another name, or is in several facts.
        notes
            Empty ones are left out.

        Examples
        --------
        >>> stated = Stated(name="mean TTFT", value=1.0, unit="s", where="Table 6")
        >>> Fact.compare(stated, 1.2, "predicted", notes=("", "of one trace")).note
        'of one trace'
        """
        return cls(
            name=name or stated.name,
            ours=ours,
            kind=kind,
            paper=stated.value,
            unit=stated.unit,
            within=within,
            note="; ".join(note for note in notes if note),
        )

    @property
    def off(self) -> float | None:
        """Ours over the paper's, less 1."""
        if self.ours is None or not self.paper:
            return None
        return self.ours / self.paper - 1

    @property
    def holds(self) -> bool | None:
        """Whether ours is as close as it should be; ``None`` where no closeness is asked for."""
        if self.within is None or self.off is None:
            return None
        return abs(self.off) <= self.within


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows under headings.

    Parameters
    ----------
    frame
        The rows. Columns are headings, their units in them.
    formats
        How to print a column, as a format specification (``".1f"``); others as polars would. Names of columns
        that the table does not have are ignored, so that tables may share their formats.
    name
        Of the file, lower-case and dashed, unlike any other in its study; `pages` fills it in.
    caption
        What it shows, in a line; likewise.
    """

    frame: pl.DataFrame
    formats: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    caption: str = ""

    def cells(self) -> list[list[str]]:
        """Return the rows as text, by the formats."""
        return [
            [printed(value, self.formats.get(name, "")) for name, value in row.items()]
            for row in self.frame.iter_rows(named=True)
        ]


def printed(value: object, spec: str = "") -> str:
    """Return a value as a table prints it; nothing for ``None`` and for numbers that are not finite."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, float) and not spec:
        return f"{value:.4g}"
    return format(value, spec)


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Numbers of the paper beside ours, as a table.

    Parameters
    ----------
    facts
        A row each.
    name, caption
        As of a :class:`Table`.
    """

    facts: tuple[Fact, ...]
    name: str = ""
    caption: str = ""

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
        formats = {"paper": ".4g", "ours": ".4g", "off": "+.1%"}
        return Table(frame, formats, name=self.name, caption=self.caption)


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A picture, and the data that it draws.

    Parameters
    ----------
    data
        All that is drawn, written beside the picture as CSV.
    draw
        Draws ``data`` into an empty figure. It must not depend on anything else.
    size
        Inches.
    name, caption
        As of a :class:`Table`.
    """

    data: pl.DataFrame
    draw: Draw
    size: tuple[float, float] = (7.0, 4.0)
    name: str = ""
    caption: str = ""


#: A page is text in Markdown, tables, facts and figures, in order.
Part: TypeAlias = str | Table | Facts | Figure


@dataclass(frozen=True, slots=True, eq=False)
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

    def tables(self) -> dict[str, Table]:
        """Return all tables of all pages by name, facts among them."""
        parts = (part for page in self.pages for part in page.parts)
        return {
            part.name: part.table() if isinstance(part, Facts) else part
            for part in parts
            if isinstance(part, Table | Facts)
        }

    def figures(self) -> dict[str, Figure]:
        """Return all figures of all pages by name."""
        parts = (part for page in self.pages for part in page.parts)
        return {part.name: part for part in parts if isinstance(part, Figure)}
