"""The data files of a study: the paper's numbers, the choices, and the pages with their places."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

from paceline.errors import ConfigError
from paceline.study import Fact, Facts, Paper, Stated, Table
from paceline.study.choices import Comparisons, choices, median_rows
from paceline.study.claims import Claim
from paceline.study.pages import pages

TEXT = """
source = "A paper"
[table-1]
where = "Table 1"
units = { ttft = "s", share = "" }
unit = "ms"
chunked = { ttft = 2.5, tbt = 30, share = { value = 0.5, where = "Section 2", kind = "fitted" } }
[table-1.layered]
said = { name = "in words", says = "near zero" }
"""


def test_a_number_has_the_place_and_the_unit_of_the_table_around_it() -> None:
    paper = Paper(TEXT)
    assert paper["table-1", "chunked", "ttft"] == Stated(name="ttft", value=2.5, unit="s", where="Table 1")
    assert paper["table-1", "chunked", "tbt"] == Stated(name="tbt", value=30, unit="ms", where="Table 1")
    assert paper["table-1", "chunked", "share"] == Stated(
        name="share", value=0.5, unit="", where="Section 2", more={"kind": "fitted"}
    )
    assert list(paper.table("table-1", "chunked")) == ["ttft", "tbt", "share"]
    assert paper.names("table-1") == ["chunked", "layered"]


def test_what_the_paper_says_in_words_has_no_value_to_reckon_with() -> None:
    said = Paper(TEXT)["table-1", "layered", "said"]
    assert (said.name, said.value, said.more) == ("in words", None, {"says": "near zero"})
    with pytest.raises(ConfigError, match="in words must have a value"):
        said.number  # noqa: B018 - it raises


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('source = ""\n[a]\nttft = 1', "a.ttft of paper.toml must say where the paper states it"),
        ('source = ""\n[a]\nwhere = "b"\nttft = "1"', "a.ttft of paper.toml must be a number, was '1'"),
        ('source = ""\n[a]\nwhere = "b"\nttft = true', "a.ttft of paper.toml must be a number, was True"),
    ],
)
def test_a_number_without_a_place_and_a_word_for_a_number_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Paper(text)


def test_a_number_that_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(ConfigError, match=r"no number table-1\.chunked\.tbtt; close to it: table-1\.chunked"):
        Paper(TEXT)["table-1", "chunked", "tbtt"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with pages of its own."""
    folder = tmp_path / "a_study_of_pages"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "pages.md").write_text(
        "## The first {#first}\n\nOne\nline, {word}.\n\n- an item\n- another\n\n"
        "<!-- rows: Rows at\n{rate}/s -->\n\n<!-- facts: Facts -->\n\nEnd.\n\n"
        "## The second {#second}\n\nText.\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, folder.name, raising=False)
    return folder.name


def test_words_and_parts_take_their_places(package: str) -> None:
    fact = Fact(name="mean", ours=1.0, kind="fitted")
    rows = Table(pl.DataFrame({"a": [1]}))
    (page,) = pages(package, {"first": {"word": "x", "rate": "2", "rows": rows, "facts": [fact]}})
    assert (page.name, page.title) == ("first", "The first")
    text, table, facts, end = page.parts
    assert text == "One line, x.\n\n- an item\n- another"
    assert isinstance(table, Table)
    assert (table.name, table.caption, table.frame.rows()) == ("rows", "Rows at 2/s", [(1,)])
    assert isinstance(facts, Facts)
    assert (facts.name, facts.facts) == ("facts", (fact,))
    assert end == "End."


def test_a_part_that_a_run_does_not_have_is_left_out(package: str) -> None:
    found = pages(package, {"second": {}, "first": {"word": "", "rate": "", "rows": None, "facts": None}})
    assert [page.name for page in found] == ["first", "second"]
    assert all(isinstance(part, str) for part in found[0].parts)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"third": {}}, r"must have a section \{#third\}, had first, second"),
        ({"second": {"rows": None}}, r"page second of pages\.md must place rows"),
        ({"first": {"rows": None}}, r"page first of pages\.md must place rows, placed rows, facts"),
    ],
)
def test_a_part_without_a_place_and_a_place_without_a_part_are_refused(
    package: str, contents: dict[str, dict[str, str | None]], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        pages(package, contents)


def test_a_word_that_the_text_names_must_be_given(package: str) -> None:
    with pytest.raises(ConfigError, match=r"page first of pages\.md needs the word 'word'"):
        pages(package, {"first": {"rows": None, "facts": None}})


COMPARED = Comparisons(
    rows=median_rows(
        {
            "own": [{"cut": 0.1, "wait": 1.0}, {"cut": 0.3, "wait": 2.0}, {"cut": 0.2, "wait": 9.0}],
            "X: more": [{"cut": 0.4, "wait": 5.0}],
        }
    ),
    claims=[
        Claim("short", "", "", lambda row: row["wait"] < 3),
        Claim("cut", "", "", lambda row: row["cut"] > 0.3),
    ],
    formats={"cut": ".0%", "wait": ".1f"},
    units={"wait": " s"},
    prefix="X: ",
)


def test_a_row_has_the_medians_over_its_seeds() -> None:
    assert COMPARED.rows.rows() == [("own", 0.2, 2.0), ("X: more", 0.4, 5.0)]


def test_a_setting_says_what_it_changes_and_which_claims_it_loses_and_gains() -> None:
    assert COMPARED.moved("X: more", ["cut", "wait"]) == (
        "more: cut 40%, wait 5.0 s; no longer: short; then holds: cut"
    )
    assert COMPARED.printed(["wait"]) == {"wait": "2.0 s"}


def test_a_quote_names_its_rows_or_the_label_in_their_place() -> None:
    assert COMPARED.quoted("cut", ".1f", ["own", "X: more"]) == "own: 0.2; more: 0.4"
    assert COMPARED.quoted("cut", ".1f", ["own"], "here") == "here: 0.2"


def test_choices_keep_the_order_of_their_file() -> None:
    found = choices("paceline.study.pascal")
    assert [choice.what for choice in found[:2]] == ["`watermark`", "`room`"]
    assert found[1].rows == ("room: the next step's", "room: the longest answer's")
