"""The features of the light family: blocks of n-grams, and standardized simple features."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from paceline.rank.light.characters import character_grams
from paceline.rank.light.features import SIMPLE_SCALE, features
from paceline.rank.light.grams import SCALES, grams
from paceline.rank.light.simple import NAMES, simple_features
from paceline.rank.light.words import sections

BITS = 20

HEAD, REST, START, APART, CHARACTERS = range(len(SCALES))


def columns_of(prompt: str, block: int) -> list[int]:
    cells, columns = grams([prompt], BITS)
    return sorted(columns[cells == block].tolist())


def test_the_first_paragraph_is_apart_from_the_rest() -> None:
    assert sections("\nName it.\n\nA bee.\n\nA fly.") == (
        ["name", "it", "."],
        ["a", "bee", ".", "\n\n", "a", "fly", "."],
    )
    assert sections("Name it.\nNow.") == (["name", "it", ".", "\n", "now", "."], [])


def test_blocks_have_the_n_grams_that_they_are_said_to_have() -> None:
    prompt = "a b c d e f"
    assert len(columns_of(prompt, HEAD)) == 6 + 5
    assert len(columns_of(prompt, REST)) == 1  # the word that stands for nothing
    assert len(columns_of(prompt, START)) == 5 + 4
    assert len(columns_of(prompt, APART)) == 4 + 3
    assert columns_of(prompt, CHARACTERS) == []


def test_the_rest_has_columns_of_its_own() -> None:
    both = columns_of("bees fly", HEAD), columns_of("What?\n\nbees fly", REST)
    assert len(both[0]) == len(both[1]) == 3
    assert set(both[0]).isdisjoint(both[1])


def test_runs_of_characters_are_those_of_the_word_with_its_ends() -> None:
    words, hashes = character_grams([["a", "bee"], ["bee"]])
    runs = [" be", "bee", "ee ", " bee", "bee ", " bee "]
    assert words.tolist() == [1] * 6 + [2] * 6
    assert hashes.tolist() == [zlib.crc32(run.encode()) for run in runs] * 2


def test_forms_of_a_word_share_columns() -> None:
    one, other = (set(columns_of(f"{word} it", CHARACTERS)) for word in ("describe", "describing"))
    assert len(one & other) > len(one) // 2


@pytest.mark.parametrize("prompt", ["Name it.", "Sum up:\n\n" + "bees fly " * 300, "?", "a a a a"])
def test_a_block_of_a_row_has_its_scale_as_length(prompt: str) -> None:
    made = features([prompt, "Another prompt with a few words."], BITS)
    mine = made.rows(np.array([0]))
    # Blocks do not share columns here, so the squares of the row add up over the blocks that it has.
    has = {int(cell) for cell in grams([prompt], BITS)[0]}
    assert (mine.values**2).sum() == pytest.approx(sum(SCALES[block] ** 2 for block in has))


def test_a_row_does_not_depend_on_the_others() -> None:
    prompts = ["Name a color.", "Sum up:\n\nBees fly far.", "Is 7 prime?"]
    together = features(prompts, BITS)
    for row, prompt in enumerate(prompts):
        alone, mine = features([prompt], BITS), together.rows(np.array([row]))
        assert alone.columns.tolist() == mine.columns.tolist()
        assert alone.values.tolist() == mine.values.tolist()
        assert alone.simple.tolist() == mine.simple.tolist()


def test_no_prompts_have_no_rows() -> None:
    made = features([], BITS)
    assert len(made) == 0
    assert made.scores(np.zeros((1 << BITS) + len(NAMES))).tolist() == []


def test_an_odd_prompt_is_limited() -> None:
    odd = simple_features(["?" * 10_000, "9 " * 50_000, "\n".join("A" * 2_000)])
    assert np.abs(odd).max() == 4.0
    assert np.abs(features(["?" * 10_000], BITS).simple).max() == pytest.approx(4.0 * SIMPLE_SCALE)
