"""A saved ranker scores as before, and a folder that was changed is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.errors import RankError
from paceline.rank import PairwiseRanker, PointwiseRanker, load
from unit.rank.drawn import drawn

PROMPTS, LENGTHS = drawn(400)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    PairwiseRanker(steps=20, bits=10, delta=0.25, seed=7).fit(PROMPTS, LENGTHS, note="drawn").save(path)
    return path


def test_scores_and_predictions_are_as_before(tmp_path: Path) -> None:
    ranker = PointwiseRanker(steps=20, bits=10, held_out=0.5).fit(PROMPTS, LENGTHS)
    ranker.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again) is PointwiseRanker
    assert (again.score(PROMPTS) == ranker.score(PROMPTS)).all()
    assert (again.predict_tokens(PROMPTS) == ranker.predict_tokens(PROMPTS)).all()


def test_the_manifest_says_what_it_was_made_from(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["objective_settings"] == {"delta": 0.25, "partners": 10, "margin": 1.0}
    assert (manifest["family"], manifest["seed"], manifest["note"]) == ("light", 7, "drawn")
    assert manifest["data"]["samples"] == 400
    assert set(manifest["files"]) == {"README.md", "calibration.safetensors", "weights.safetensors"}
    assert manifest["quality"]["held_out"]["tau"] > 0
    card = (folder / "README.md").read_text()
    assert manifest["data"]["sha256"] in card
    assert "drawn" in card


def test_the_same_data_and_seed_give_the_same_folder(folder: Path, tmp_path: Path) -> None:
    PairwiseRanker(steps=20, bits=10, delta=0.25, seed=7).fit(PROMPTS, LENGTHS, note="drawn").save(
        tmp_path / "b"
    )
    for file in folder.iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_other_lengths_have_another_hash(folder: Path) -> None:
    one = load(folder).manifest
    two = PairwiseRanker(steps=1, bits=10).fit(PROMPTS, LENGTHS + 1).manifest
    assert one is not None
    assert two is not None
    assert one.data.sha256 != two.data.sha256


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def edited(path: Path) -> None:
    text = path.read_text()
    assert '"seed": 7' in text
    path.write_text(text.replace('"seed": 7', '"seed": 8'))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda of: flipped(of / "weights.safetensors"), r"weights\.safetensors: must be as it was saved"),
        (lambda of: flipped(of / "calibration.safetensors"), r"calibration\.safetensors: must be as it was"),
        (lambda of: (of / "README.md").write_text("better"), r"README\.md: must be as it was saved"),
        (lambda of: (of / "weights.safetensors").unlink(), r"weights\.safetensors: is missing"),
        (
            lambda of: (of / "extra.pkl").write_bytes(b"cos\nsystem\n."),
            r"extra\.pkl: is not named in manifest",
        ),
        (lambda of: edited(of / "manifest.json"), r"manifest\.json: was changed after it was written"),
        (lambda of: (of / "manifest.json").write_text("{"), r"manifest\.json: is no manifest of a ranker"),
        (lambda of: (of / "manifest.json").unlink(), r"must be the folder of a saved ranker, but has no"),
    ],
)
def test_a_folder_that_was_tampered_with_is_refused(
    folder: Path, harm: Callable[[Path], object], message: str
) -> None:
    harm(folder)
    with pytest.raises(RankError, match=message):
        load(folder)


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.txt").write_text("years of work")
    with pytest.raises(RankError, match="must be new, empty, or the folder of a saved ranker"):
        PairwiseRanker(steps=1, bits=10).fit(PROMPTS, LENGTHS).save(tmp_path / "thesis")
    assert (tmp_path / "thesis/chapter.txt").exists()


def test_a_saved_ranker_is_replaced(folder: Path) -> None:
    PairwiseRanker(steps=1, bits=10, seed=1).fit(PROMPTS, LENGTHS).save(folder)
    manifest = load(folder).manifest
    assert manifest is not None
    assert manifest.seed == 1
