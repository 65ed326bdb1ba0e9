"""The numbers in ``paper.toml`` against the texts of the papers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paceline.study import Paper
from paceline.study.layered_prefill.setting import ARXIV, PAPER, SHAREGPT

DATASETS = {SHAREGPT: "ShareGPT", ARXIV: "arXiv"}


@pytest.fixture(scope="module")
def layered_rows(shared: Path) -> list[list[str]]:
    """The rows of the tables of the paper on layered prefill."""
    text = (shared / "papers/layered-prefill.md").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if "\t" in line]


def _values(*path: str) -> list[float]:
    return [stated.number for stated in PAPER.table(*path).values()]


def test_table_2_is_the_papers(layered_rows: list[list[str]]) -> None:
    stated = {row[0]: list(map(float, row[1:])) for row in layered_rows if row[0] in ("512", "1024", "2048")}
    assert {chunk: _values("table-2", chunk) for chunk in PAPER.names("table-2")} == stated


def test_the_lengths_of_table_4_are_the_papers(layered_rows: list[list[str]]) -> None:
    for name, title in DATASETS.items():
        lengths = _values("table-4", name, "prompt_tokens") + _values("table-4", name, "output_tokens")
        assert [title, *(f"{length:g}" for length in lengths)] in layered_rows


def test_the_objectives_of_table_5_are_the_papers(layered_rows: list[list[str]]) -> None:
    for model in ("Qwen", "GPT"):
        for name, title in DATASETS.items():
            ttft, itl = _values("table-5", model.lower(), name)
            assert [model, title, f"{ttft:g}", f"{1e3 * itl:g}"] in layered_rows


def test_table_6_is_the_papers(layered_rows: list[list[str]]) -> None:
    stated = {
        row[0].lower(): list(map(float, row[1:])) for row in layered_rows if row[0] in ("Chunked", "Layered")
    }
    assert {schedule: _values("table-6", schedule) for schedule in PAPER.names("table-6")} == stated


def test_table_7_is_the_papers(layered_rows: list[list[str]]) -> None:
    stated = [float(row[2].removesuffix(" TB")) for row in layered_rows if len(row) == 4 and "TB" in row[2]]
    assert [value for name in DATASETS for value in _values("table-7", name)] == stated


@pytest.mark.parametrize("name", ["layered_prefill", "pascal"])
def test_every_number_stands_in_the_papers_text(shared: Path, name: str) -> None:
    text = (shared / f"papers/{name.replace('_', '-')}.md").read_text(encoding="utf-8")
    said = {float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)}
    paper = Paper.load(f"paceline.study.{name}")
    numbers = paper.all()
    assert len(numbers) > 20
    # Shares are percentages in the text, and seconds may be milliseconds.
    missing = [
        stated
        for stated in numbers
        if stated.value is not None
        and not {round(stated.value * factor, 6) for factor in (1, 100, 1000)} & said
    ]
    assert missing == []
