"""Pictures of the documents: each is shown by a page, and drawn by a command that is in the tree."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs/pictures"
SHOWN = re.compile(r"!\[[^]]+\]\(([^)]+\.svg)\)")
DRAWN = runpy.run_path(str(ROOT / "docs/pictures.py"))

# By scripts that draw one picture, or those of a study.
BY_OTHERS = {"accuracy.svg": "docs/accuracy.py", "how-many-gpus.svg": "docs/readme_picture.py"}


def shown() -> set[Path]:
    """Return the pictures that documents show."""
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return {
        (document.parent / link).resolve()
        for document in documents
        for link in SHOWN.findall(document.read_text(encoding="utf-8"))
    }


def test_every_picture_is_shown_by_a_page_and_is_there() -> None:
    assert shown() == set(PICTURES.rglob("*.svg"))


def test_every_picture_has_a_command_that_draws_it() -> None:
    names = {file.name for file in PICTURES.glob("*.svg")}
    assert names == BY_OTHERS.keys() | {f"{name}.svg" for name in DRAWN["DRAWN"]}
    assert all((ROOT / script).is_file() for script in BY_OTHERS.values())
    # docs/studies/refresh.py draws the others, in a folder for each study.
    assert all(
        (ROOT / f"docs/studies/{folder.name}.md").is_file()
        for folder in PICTURES.iterdir()
        if folder.is_dir()
    )


@pytest.mark.parametrize("name", DRAWN["DRAWN"])
def test_a_picture_can_be_drawn_again(name: str) -> None:
    # Not byte by byte: where text stands depends on the fonts of the machine.
    fresh, kept = DRAWN["svg"](name), (PICTURES / f"{name}.svg").read_text(encoding="utf-8")
    texts = re.compile(r">([^<>]+)</text>")
    assert texts.findall(fresh) == texts.findall(kept), f"run docs/pictures.py {name}"
