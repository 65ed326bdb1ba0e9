"""The blocks that answers fill, as the turns after them tell."""

from __future__ import annotations

import polars as pl

from paceline.trace.answers import answer_blocks


def filled(rows: list[tuple[str | None, int, int, list[int]]]) -> list[list[int]]:
    """Return the ids of each answer's blocks of 10 tokens."""
    frame = pl.DataFrame(
        rows,
        schema={
            "session": pl.String,
            "prompt_tokens": pl.UInt32,
            "output_tokens": pl.UInt32,
            "prefix": pl.List(pl.UInt64),
        },
        orient="row",
    )
    found = answer_blocks(frame, 10)
    if not found:
        return [[] for _ in rows]
    ends, ids = found["output_ends"].tolist(), found["output_ids"].tolist()
    return [ids[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def test_the_next_turn_tells_the_whole_blocks_of_prompt_and_answer() -> None:
    # 25 + 18 tokens fill blocks 2 and 3 of the next prompt; 50 + 9 fill none, and the last turn has no next.
    rows = [
        ("a", 25, 18, [1, 2]),
        ("b", 5, 1, []),
        ("a", 50, 9, [1, 2, 3, 4, 5]),
        ("a", 61, 9, [1, 2, 3, 4, 5, 6]),
    ]
    assert filled(rows) == [[3, 4], [], [], []]


def test_an_answer_to_a_prompt_shorter_than_a_block_is_told_from_its_first_block() -> None:
    assert filled([("a", 5, 17, []), ("a", 30, 1, [7, 8, 9])]) == [[7, 8], []]


def test_a_prompt_that_does_not_continue_the_turn_before_tells_nothing() -> None:
    other = [1, 9, 3, 4]
    assert filled([("a", 20, 15, [1, 2]), ("a", 40, 1, other)]) == [[], []], "its second block is another"
    assert filled([("a", 20, 15, [1, 2]), ("a", 34, 1, [1, 2, 3])]) == [[], []], "it is too short"
    assert filled([("a", 20, 15, [1, 2]), ("a", 40, 1, [1, 2])]) == [[], []], "it has ids of the prompt alone"
    assert filled([("a", 20, 15, [1]), ("a", 40, 1, [1, 2, 3, 4])]) == [[], []], "the first lacks an id"


def test_rows_without_a_session_continue_nothing() -> None:
    assert filled([(None, 20, 15, [1, 2]), (None, 40, 1, [1, 2, 3, 4])]) == [[], []]
