"""The page of accuracy: its script fills in each marked part, and the page has all parts."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from paceline.validation import suite
from unit.validation.points import samples
from unit.validation.points.samples import write

ROOT = Path(__file__).resolve().parents[2]
BEGINNINGS = re.compile(r"<!-- begin (\w+) -->")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs/accuracy.py"))


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a small suite finds: two loads of vLLM and one refusal."""
    monkeypatch.setenv("PACELINE_PROFILES", str(tmp_path / "profiles"))
    rows = [{**samples.AICONFIGURATOR, "concurrency": c, "batch_size": c} for c in (4, 16)]
    write(tmp_path / "data/points.csv", [*rows, {**samples.AICONFIGURATOR, "mode": "disagg"}])
    return suite(tmp_path / "data", workers=1).to_json()


def test_every_part_is_filled_in_and_the_text_around_it_stays(
    script: dict[str, Any], found: dict[str, Any]
) -> None:
    text = (ROOT / "docs/accuracy.md").read_text(encoding="utf-8")
    made = script["page"](text, found, found)
    assert BEGINNINGS.findall(made) == BEGINNINGS.findall(text)
    assert re.sub(script["PLACE"], "", made) == re.sub(script["PLACE"], "", text)
    assert script["page"](made, found, found) == made, "a second time changes nothing"
    assert "2 of 2 points that can be modelled were replayed, and 1 are refused" in made
    assert "| 1 | prefill and decode apart, on instances that the data do not describe |" in made


def test_aims_are_bold_where_median_and_ninetieth_percentile_are_met(script: dict[str, Any]) -> None:
    reached = script["reached"]
    of = {"median_abs": 0.0193, "p90_abs": 0.149}
    assert reached(of, 2, 15) == "**1.9, 15**"
    assert reached(of, 1, 15) == reached(of, 2, 14) == "1.9, 15"
    assert reached(None, 2, 5) == ""


def test_the_picture_has_the_quantiles_of_each_engine_and_load(
    script: dict[str, Any], found: dict[str, Any]
) -> None:
    table = script["ratios"](found)
    assert table.select("engine", "regime").unique().sort("regime").rows() == [
        ("vLLM", "busy"),
        ("vLLM", "light"),
    ]
    light = table.filter((table["regime"] == "light") & (table["metric"] == "TPOT")).row(0, named=True)
    one = next(point for point in found["points"] if point["regime"] == "light")
    # The quantiles of one point are that point.
    assert light["p10"] == light["p90"] == pytest.approx(1 + one["errors"]["tpot"])
    assert len(script["picture"](table).to_dict()["concat"]) == 4
