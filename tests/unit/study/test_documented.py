"""The documents of studies have the tables that the command prints."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from paceline.study import run_study, studies

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


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_document_has_the_tables_of_its_study(name: str, request: pytest.FixtureRequest) -> None:
    refresh = runpy.run_path(str(ROOT / "docs/studies/refresh.py"))
    if name in refresh["NEEDS_DATA"]:
        request.getfixturevalue("shared")
    text = (ROOT / f"docs/studies/{name}.md").read_text(encoding="utf-8")
    study = run_study(name, refresh["work"](name, refresh["DATA"]))
    assert text == refresh["filled"](text, study), f"run docs/studies/refresh.py {name}"


def test_a_document_that_differs_from_a_fresh_run_is_told_line_by_line() -> None:
    refresh = runpy.run_path(str(ROOT / "docs/studies/refresh.py"))
    lines = refresh["difference"]("x", "<!-- a -->\n| 1 |\n", "<!-- a -->\n| 2 |\n")
    assert lines[3:] == [" <!-- a -->", "-| 1 |", "+| 2 |"]
    assert set(refresh["QUICK"]) <= set(refresh["documented"]()) == set(DOCUMENTED)
