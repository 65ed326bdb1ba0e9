"""The documents of studies have the tables that the command prints."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Literal

import matplotlib.figure
import polars as pl
import pytest

from paceline.study import run_study, studies
from paceline.study.charts import lines
from paceline.study.writing import picture

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTED = [name for name in studies() if (ROOT / f"docs/studies/{name}.md").is_file()]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_document_names_tables_that_its_study_places(name: str) -> None:
    place = re.compile(r"^<!-- ([a-z0-9-]+)(?:: [^>]*)? -->$", re.MULTILINE)
    pages = ROOT / f"python/paceline/study/{name.replace('-', '_')}/pages.md"
    placed = place.findall(pages.read_text(encoding="utf-8"))
    named = place.findall((ROOT / f"docs/studies/{name}.md").read_text(encoding="utf-8"))
    # More than ten, or all but one of a study that has few.
    assert len(named) > 10 or len(named) >= len(placed) - 1
    assert set(named) <= set(placed)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_document_shows_pictures_that_its_study_draws(name: str) -> None:
    refresh = runpy.run_path(str(ROOT / "docs/studies/refresh.py"))
    shown = refresh["PICTURE"].findall((ROOT / f"docs/studies/{name}.md").read_text(encoding="utf-8"))
    pages = (ROOT / f"python/paceline/study/{name.replace('-', '_')}/pages.md").read_text(encoding="utf-8")
    assert all(of == name and f"<!-- {figure}:" in pages for of, figure in shown)


def test_a_picture_has_the_same_bytes_each_time() -> None:
    figure = replace(
        lines(pl.DataFrame({"x": [1, 2], "y": [3.0, 1.0], "by": "a"}), x="x", y="y", by="by"), name="n"
    )
    assert picture(figure) == picture(figure)
    assert b">x</text>" in picture(figure)


@pytest.mark.parametrize(("scale", "least"), [("linear", 0.0), ("log", 0.002)])
def test_lines_are_within_their_axes(scale: Literal["linear", "log"], least: float) -> None:
    heights = [0.002, 0.3]
    data = pl.DataFrame({"x": [1, 2], "y": heights, "by": "a"})
    figure, drawn = lines(data, x="x", y="y", by="by", y_scale=scale), matplotlib.figure.Figure()
    figure.draw(drawn, data)
    bottom, top = drawn.axes[0].get_ylim()
    assert bottom <= min(heights) <= max(heights) <= top
    assert bottom == pytest.approx(least, rel=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_document_has_the_tables_of_its_study(name: str, request: pytest.FixtureRequest) -> None:
    refresh = runpy.run_path(str(ROOT / "docs/studies/refresh.py"))
    if name in refresh["NEEDS_DATA"]:
        request.getfixturevalue("shared")
    text = (ROOT / f"docs/studies/{name}.md").read_text(encoding="utf-8")
    study = run_study(name, refresh["work"](name, refresh["DATA"]))
    assert text == refresh["filled"](text, study), f"run docs/studies/refresh.py {name}"
    drawn = refresh["drawn"](text, study)
    assert [file.name for file, picture in drawn.items() if file.read_bytes() != picture] == []


def test_a_document_that_differs_from_a_fresh_run_is_told_line_by_line() -> None:
    refresh = runpy.run_path(str(ROOT / "docs/studies/refresh.py"))
    lines = refresh["difference"]("x", "<!-- a -->\n| 1 |\n", "<!-- a -->\n| 2 |\n")
    assert lines[3:] == [" <!-- a -->", "-| 1 |", "+| 2 |"]
    assert set(refresh["QUICK"]) <= set(refresh["documented"]()) == set(DOCUMENTED)
