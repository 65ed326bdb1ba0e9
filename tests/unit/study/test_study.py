"""A study's pages, as files for people and for machines."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest

from paceline.errors import ConfigError, ResultError
from paceline.study import Fact, Facts, Page, Study, Table, Work, as_document, lines, run_study, write_study


def _study() -> Study:
    points = pl.DataFrame({"rate": [1.0, 2.0, 1.0], "share": [1.0, 0.5, 0.9], "policy": ["a", "a", "paper"]})
    return Study(
        name="toy",
        title="A toy",
        source="Nobody, Nowhere.",
        pages=(
            Page(
                name="first",
                title="The first page",
                parts=(
                    "Some *text*.",
                    Table(
                        name="rows",
                        caption="Rows",
                        frame=pl.DataFrame({"who": ["x|y", "z"], "share": [0.123, None]}),
                        formats={"share": ".1%"},
                    ),
                    Facts(
                        name="facts",
                        caption="Facts",
                        facts=(
                            Fact(name="mean", unit="s", paper=2.0, ours=2.2, kind="predicted", within=0.15),
                            Fact(name="slope", ours=1.0, kind="fitted"),
                        ),
                    ),
                    lines("picture", "A picture", points, x="rate", y="share", by="policy", marks=("paper",)),
                ),
            ),
        ),
    )


def test_a_study_is_written_for_people_and_for_machines(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder = write_study(_study(), tmp_path / "out")
    assert {path.name for path in folder.iterdir()} == {
        *("index.md", "study.json", "rows.csv", "rows.md", "facts.csv", "facts.md"),
        *("picture.png", "picture.csv"),
    }
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    index = (folder / "index.md").read_text(encoding="utf-8")
    assert "| x\\|y | 12.3% |" in index
    assert "| mean | s | 2 | 2.2 | +10.0% | predicted |  |" in index
    document = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    assert document == json.loads(json.dumps(as_document(_study())))
    mean, slope = document["pages"]["first"]["facts"]["facts"]
    assert (mean["holds"], slope["holds"], slope["off"]) == (True, None, None)


def test_the_same_study_gives_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    one, two = (write_study(_study(), tmp_path / name) for name in ("one", "two"))
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes(), path.name


def test_a_study_replaces_a_study_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder = write_study(_study(), tmp_path / "out")
    (folder / "stale.csv").write_text("1\n")
    write_study(_study(), folder)
    assert not (folder / "stale.csv").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("1\n")
    with pytest.raises(ResultError, match="must be empty or hold a study"):
        write_study(_study(), tmp_path / "mine")


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'paceline\[study\]'"):
        write_study(_study(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_unknown_study_is_refused_with_what_there_is() -> None:
    with pytest.raises(ConfigError, match="there is no study 'layerd-prefill'; close to it: layered-prefill"):
        run_study("layerd-prefill")


def test_progress_never_says_that_more_is_done_than_there_is() -> None:
    said: list[tuple[str, float, float]] = []
    work = Work(report=lambda *words: said.append(words))
    work.plan(1.0)
    work.done("one")
    work.done("one more")
    assert said == [("one", 1.0, 1.0), ("one more", 2.0, 2.0)]
