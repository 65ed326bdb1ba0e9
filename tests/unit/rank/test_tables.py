"""Prompts, lengths and scores in files: each format, and errors that name the row."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from paceline import Trace
from paceline.errors import RankError
from paceline.rank.examples import read_examples, read_prompts
from paceline.rank.scores import read_scores, score_trace, write_scores

ROWS = [
    {"id": "a", "prompt": 'Say "hi", please.\nNow.', "output_tokens": 3, "model": "m"},
    {"id": "b", "prompt": "Write an essay.", "output_tokens": 700, "model": "m"},
]


def written(path: Path, rows: list[dict[str, object]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".csv":
        pl.DataFrame(rows).write_csv(path)
    else:
        pl.DataFrame(rows).write_parquet(path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json", "parquet"])
def test_every_format_has_the_same_samples(tmp_path: Path, suffix: str) -> None:
    samples = read_examples([written(tmp_path / f"in.{suffix}", ROWS)])
    assert samples.prompts == [row["prompt"] for row in ROWS]
    assert samples.lengths.tolist() == [3.0, 700.0]
    assert samples.groups == ["in/m", "in/m"]
    ids, prompts = read_prompts(tmp_path / f"in.{suffix}")
    assert (ids.to_list(), prompts) == (["a", "b"], samples.prompts)


def test_alpacas_layout_has_lengths_in_words_and_drops_empty_outputs(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"instruction": "Sum up.", "input": "A text.", "output": "Two words."},
        {"instruction": "Say nothing.", "input": "", "output": ""},
        {"instruction": "Name a color.", "input": "", "output": "Blue"},
    ]
    samples = read_examples([written(tmp_path / "alpaca.json", rows)])
    assert samples.prompts == ["Sum up.\n\nA text.", "Name a color."]
    assert samples.lengths.tolist() == [2.0, 1.0]
    assert samples.dropped == {"no output": 1}


def test_alpaca_has_two_empty_outputs_and_inputs_where_its_readme_says(data: Path) -> None:
    samples = read_examples([data / "traces/alpaca_5000.json.zst"])
    # In the stand-in, two rows of five have an input.
    rows, inputs = (5_000, 1_900) if data.name == "shared" else (2_000, 798)
    assert samples.dropped == {"no output": 2}
    assert len(samples) == rows - 2
    assert sum("\n\n" in prompt for prompt in samples.prompts) >= inputs


def test_lengths_of_their_own_are_joined_by_id(tmp_path: Path) -> None:
    prompts = written(
        tmp_path / "p.jsonl", [{"prompt_id": 7, "prompt": "x"}, {"prompt_id": 9, "prompt": "y"}]
    )
    lengths = written(
        tmp_path / "l.parquet",
        [
            {"prompt_id": 9, "model": "m", "output_tokens": 4},
            {"prompt_id": 7, "model": "n", "output_tokens": 5},
        ],
    )
    samples = read_examples([prompts], lengths=lengths)
    assert (samples.prompts, samples.lengths.tolist(), samples.groups) == (
        ["y", "x"],
        [4.0, 5.0],
        ["p/m", "p/n"],
    )
    unknown = written(tmp_path / "u.jsonl", [{"prompt_id": 8, "model": "m", "output_tokens": 4}])
    with pytest.raises(RankError, match=r"u\.jsonl, line 1: prompt_id must be of a prompt in .*, was '8'"):
        read_examples([prompts], lengths=unknown)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"prompt": "a", "output_tokens": 1}\n\n{"prompt": "", "output_tokens": 1}',
            "line 3: prompt must be a",
        ),
        ('{"prompt": "a", "output_tokens": 1}\n{"output_tokens": 1}', "line 2: prompt .* was missing"),
        ('{"prompt": "a", "output_tokens": "many"}', "line 1: output_tokens must be a finite .* was 'many'"),
        (
            '{"prompt": "a", "output_tokens": 0}',
            "line 1: output_tokens must be a finite number above 0, was 0",
        ),
        ('{"prompt": "a"}', "must have the column prompt and one of output_tokens, length, output_words"),
        ('{"prompt": "a", "output_tokens": 1}\n[1]', "line 2: must be one JSON object"),
        ("", "has no rows"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.jsonl").write_text(text)
    with pytest.raises(RankError, match=rf"bad\.jsonl.*{message}"):
        read_examples([tmp_path / "bad.jsonl"])


@pytest.mark.parametrize("kind", ["score", "predicted_tokens"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_scores_are_read_as_they_were_written(tmp_path: Path, suffix: str, kind: str) -> None:
    path = tmp_path / f"s.{suffix}"
    write_scores(pl.Series("id", ["x", "y"]), np.array([0.1, -1e-7]), path, kind=kind)
    found = read_scores(path)
    assert (found["id"].to_list(), found["score"].to_list()) == (["x", "y"], [0.1, -1e-7])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,score\n1,2\n2,NaN\n", r"line 3: score must be a finite number, was NaN"),
        ("id,score\n1,2\n2,\n", r"line 3: score must be a finite number, was missing"),
        ("id,score\n1,2\n,3\n", r"line 3: id must be there, was missing"),
        ("id,score\n1,2\n1,3\n", r"line 3: id must be in one row only, was '1' again"),
        ("id,tokens\n1,2\n", "must have the column score or predicted_tokens, has id, tokens"),
        ("score\n1\n", "must have the column id, has score"),
    ],
)
def test_bad_scores_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(RankError, match=rf"s\.csv.*{message}"):
        read_scores(tmp_path / "s.csv")


TRACE = Trace.from_columns(arrival=[0, 1, 2], prompt_tokens=[5, 5, 5], output_tokens=[1, 2, 3])


def test_a_trace_gets_scores_by_row() -> None:
    scored = score_trace(TRACE, pl.DataFrame({"id": [2, 0, 1], "score": [2.5, 0.5, 1.5]}))
    assert scored.frame["score"].to_list() == [0.5, 1.5, 2.5]
    again = score_trace(scored, pl.DataFrame({"id": ["0", "1", "2"], "score": [3.0, 2.0, 1.0]}))
    assert again.frame["score"].to_list() == [3.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([0, 1], "row 2 .*: has no score; .* each of 3 requests, 1 are missing"),
        ([0, 1, 3], r"scores, row 2: id must be a request's row in trace trace, from 0 to 2, was 3"),
        (["0", "1", "b"], "scores, row 2: id must be a request's row .* was 'b'"),
    ],
)
def test_a_trace_needs_a_score_for_each_request(ids: list[object], message: str) -> None:
    with pytest.raises(RankError, match=message):
        score_trace(TRACE, pl.DataFrame({"id": ids, "score": [1.0] * len(ids)}))
