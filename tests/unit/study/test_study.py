"""A study's pages, as files for people and for machines."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from paceline.errors import ConfigError, ResultError
from paceline.study import (
    Fact,
    Facts,
    Page,
    Stated,
    Study,
    Table,
    Work,
    as_document,
    lines,
    run_study,
    write_study,
)


def _study() -> Study:
    points = pl.DataFrame({"rate": [1.0, 2.0, 1.0], "share": [1.0, 0.5, 0.9], "policy": ["a", "a", "paper"]})
    picture = lines(points, x="rate", y="share", by="policy", marks=("paper",))
    return Study(
        name="toy",
        title="A toy",
        source="A paper.",
        pages=(
            Page(
                name="first",
                title="The first page",
                parts=(
                    "Some *text*.",
                    Table(
                        name="rows",
                        caption="Rows",
                        frame=pl.DataFrame({"policy": ["x|y", "z"], "share": [0.123, None]}),
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
                    replace(picture, name="picture", caption="A picture"),
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


def test_tables_are_found_by_name_facts_among_them() -> None:
    tables = _study().tables()
    assert list(tables) == ["rows", "facts"]
    assert tables["facts"].cells()[0] == ["mean", "s", "2", "2.2", "+10.0%", "predicted", ""]


def test_a_fact_holds_up_to_its_bound_on_either_side() -> None:
    stated = Stated(name="mean", value=4.0, unit="s", where="Table 1")
    off = {ours: Fact.compare(stated, ours, "predicted", within=0.25).holds for ours in (2.9, 3.0, 5.0, 5.1)}
    assert off == {2.9: False, 3.0: True, 5.0: True, 5.1: False}
    assert Fact.compare(stated, 9.0, "predicted").holds is None
    assert Fact.compare(Stated(name="mean", value=None), 9.0, "predicted", within=0.1).holds is None


def test_a_fact_has_the_papers_name_unit_and_notes_in_order() -> None:
    stated = Stated(name="mean", value=4.0, unit="ms", where="Table 1")
    fact = Fact.compare(stated, 5.0, "fitted", notes=("one", "", "two"))
    assert fact == Fact(name="mean", ours=5.0, kind="fitted", paper=4.0, unit="ms", note="one; two")
    assert Fact.compare(stated, 5.0, "fitted", name="other").name == "other"


def test_a_number_of_workers_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="workers must be 1 or more, was 0"):
        Work(workers=0)
