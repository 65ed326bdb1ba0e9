"""Writing a study into a folder, for people and for machines.

The folder holds ``index.md`` (all pages), a CSV and a Markdown file for each table, a PNG and a CSV for each
figure, and ``study.json``. Nothing in it says when or where it was made: the same study gives the same bytes
with the same versions of polars and matplotlib.
"""

from __future__ import annotations

import io
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from paceline._atomic import new_directory
from paceline._core import VERSION
from paceline.errors import ConfigError, ResultError
from paceline.study.model import Fact, Facts, Figure, Page, Study, Table

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["as_document", "check_target", "markdown", "need_matplotlib", "picture", "write_study"]

DOCUMENT = "study.json"


def need_matplotlib() -> ModuleType:
    """Return matplotlib, or say how to get it.

    Raises
    ------
    ConfigError
        If it is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise ConfigError(
            "figures need matplotlib, which is not installed: pip install 'paceline[study]'"
        ) from error
    return matplotlib


def write_study(study: Study, folder: str | os.PathLike[str]) -> Path:
    """Write a study into a folder, whole or not at all.

    Parameters
    ----------
    study
        What to write.
    folder
        Made if need be. A study that is there is replaced.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ConfigError
        If matplotlib is not installed.
    ResultError
        If the folder holds something else than a study, or cannot be written.
    """
    need_matplotlib()
    target = check_target(folder)
    try:
        with new_directory(target) as draft:
            for page in study.pages:
                for part in page.parts:
                    if isinstance(part, Figure):
                        _write_figure(part, draft)
                    elif isinstance(part, Table | Facts):
                        _write_table(part, draft)
            (draft / "index.md").write_text(_index(study), encoding="utf-8")
            text = json.dumps(as_document(study), ensure_ascii=False, indent=1, allow_nan=False)
            (draft / DOCUMENT).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ResultError(f"{target}: could not be written: {error.strerror or error}") from error
    return target


def check_target(folder: str | os.PathLike[str]) -> Path:
    """Return the folder to write to, or say why a study cannot go there.

    Raises
    ------
    ResultError
        If it is a file, or holds something else than a study.
    """
    target = Path(os.path.realpath(folder))
    if not target.exists():
        return target
    if not target.is_dir():
        raise ResultError(f"{target}: must be a folder, was a file; name another")
    if any(target.iterdir()) and not (target / DOCUMENT).is_file():
        raise ResultError(f"{target}: must be empty or hold a study, held other files; name another folder")
    return target


def as_document(study: Study) -> dict[str, Any]:
    """Return all of a study that machines can read: tables, facts, and the data of figures."""
    return {
        "paceline": VERSION,
        "study": study.name,
        "title": study.title,
        "source": study.source,
        "quick": study.quick,
        "pages": {page.name: _page_document(page) for page in study.pages},
    }


def _page_document(page: Page) -> dict[str, Any]:
    document: dict[str, Any] = {
        "title": page.title,
        "text": [part for part in page.parts if isinstance(part, str)],
        "facts": {},
        "tables": {},
        "figures": {},
    }
    for part in page.parts:
        if isinstance(part, Facts):
            document["facts"][part.name] = [_fact(fact) for fact in part.facts]
        elif isinstance(part, Table):
            document["tables"][part.name] = {"caption": part.caption, "rows": _rows(part.frame)}
        elif isinstance(part, Figure):
            document["figures"][part.name] = {
                "caption": part.caption,
                "file": f"{part.name}.png",
                "rows": _rows(part.data),
            }
    return document


def _fact(fact: Fact) -> dict[str, Any]:
    names = ("name", "unit", "paper", "ours", "off", "kind", "within", "holds", "note")
    return {name: getattr(fact, name) for name in names}


def _rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in row.items()
        }
        for row in frame.iter_rows(named=True)
    ]


def markdown(table: Table) -> str:
    """Return a table in Markdown, without its caption."""
    names = table.frame.columns
    right = [table.frame.schema[name].is_numeric() for name in names]
    lines = [names, ["---:" if number else "---" for number in right], *table.cells()]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |"
        for line in lines
    )


def _index(study: Study) -> str:
    parts = [f"# {study.title}", study.source]
    if study.quick:
        parts.append("A quick run, on few requests: its numbers are rough.")
    for page in study.pages:
        parts.append(f"## {page.title}")
        for part in page.parts:
            if isinstance(part, str):
                parts.append(part.strip())
            elif isinstance(part, Figure):
                parts += [f"![{part.caption}]({part.name}.png)", f"{part.caption} ([data]({part.name}.csv))"]
            else:
                table = part.table() if isinstance(part, Facts) else part
                parts += [f"{table.caption} ([CSV]({table.name}.csv))", markdown(table)]
    return "\n\n".join(parts) + "\n"


def _write_table(part: Table | Facts, folder: Path) -> None:
    table = part.table() if isinstance(part, Facts) else part
    table.frame.write_csv(folder / f"{table.name}.csv")
    text = f"{table.caption}\n\n{markdown(table)}\n"
    (folder / f"{table.name}.md").write_text(text, encoding="utf-8")


def picture(figure: Figure) -> bytes:
    """Return a figure as SVG: the same bytes with the same version of matplotlib.

    Raises
    ------
    ConfigError
        If matplotlib is not installed.
    """
    need_matplotlib()
    return _drawn(figure, "svg", {"Date": None, "Creator": None})


def _write_figure(figure: Figure, folder: Path) -> None:
    figure.data.write_csv(folder / f"{figure.name}.csv")
    (folder / f"{figure.name}.png").write_bytes(_drawn(figure, "png", {"Software": None}))


def _drawn(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    import matplotlib.backends.backend_agg
    import matplotlib.figure

    written = io.BytesIO()
    # Neither a window nor the user's own style: the same picture everywhere. In SVG text stays text, and ids
    # are not drawn at random.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": figure.name})
        drawn = matplotlib.figure.Figure(figsize=figure.size, dpi=120, layout="constrained")
        matplotlib.backends.backend_agg.FigureCanvasAgg(drawn)
        figure.draw(drawn, figure.data)
        drawn.savefig(written, format=kind, metadata=metadata)
    return written.getvalue()
