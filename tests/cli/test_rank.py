"""`paceline rank`: train, evaluate and score."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from cli.running import Run
from paceline import read_trace
from unit.rank.drawn import drawn


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    prompts, lengths = drawn(300)
    path = tmp_path / "samples.csv"
    frame = pl.DataFrame({"prompt": prompts, "output_tokens": lengths, "model": ["m", "n", "n"] * 100})
    frame.with_row_index("id").write_csv(path)
    return path


def test_a_trained_ranker_is_evaluated_and_scores(samples: Path, tmp_path: Path, paceline: Run) -> None:
    trained = paceline("rank", "train", samples, "--out", "model", "--json", "--delta", "0.25", "--quiet")
    assert (trained.returncode, trained.stderr) == (0, "")
    manifest = json.loads(trained.stdout)
    assert manifest["objective_settings"]["delta"] == 0.25
    assert manifest["data"]["groups"] == 2
    judged = paceline("rank", "evaluate", samples, "--model", "model", "--json", "--resamples", "20")
    rows = json.loads(judged.stdout)["rows"]
    assert [(row["model"], row["samples"]) for row in rows] == [("m", 100), ("n", 200)]
    assert all(0.6 < row["tau"] <= 1 for row in rows)
    printed = paceline("rank", "evaluate", samples, "--model", "model", "--resamples", "20", "--by", "model")
    assert [
        line.split()[:2] for line in printed.stdout.splitlines() if line.split()[:1] in (["m"], ["n"])
    ] == [
        ["m", "100"],
        ["n", "200"],
    ]
    (tmp_path / "in.jsonl").write_text(
        '{"id": "s", "prompt": "Name a sea."}\n{"id": "l", "prompt": "Write a story about a sea."}\n'
    )
    scored = paceline("rank", "score", "in.jsonl", "--out", "out.jsonl", "--model", "model")
    assert scored.stderr == "wrote 2 scores to out.jsonl\n"
    short, long = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    assert (short["id"], long["id"], set(short)) == ("s", "l", {"id", "score"})
    assert short["score"] < long["score"]


def test_without_a_model_the_shipped_one_scores(tmp_path: Path, paceline: Run) -> None:
    (tmp_path / "in.jsonl").write_text(
        '{"id": 4, "prompt": "Is ice cold? Yes or no."}\n{"id": 2, "prompt": "Write an essay on ice."}\n'
    )
    assert paceline("rank", "score", "in.jsonl", "--out", "out.jsonl", "--quiet").returncode == 0
    first, second = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    assert (first["id"], second["id"]) == (4, 2)
    assert first["score"] < second["score"]
    paceline("rank", "score", "in.jsonl", "--out", "tokens.csv", "--tokens", "--quantile", "0.9", "--quiet")
    assert pl.read_csv(tmp_path / "tokens.csv").columns == ["id", "predicted_tokens"]


def test_scores_of_another_predictor_are_joined_to_a_trace(
    tmp_path: Path, paceline: Run, small_trace: Path
) -> None:
    rows = [{"id": row, "predicted_tokens": 100 - row} for row in reversed(range(40))]
    pl.DataFrame(rows).write_parquet(tmp_path / "theirs.parquet")
    done = paceline("rank", "score", "theirs.parquet", "--trace", small_trace, "--out", "scored.csv")
    assert (done.returncode, done.stderr) == (0, "wrote 40 requests with scores to scored.csv\n")
    assert read_trace(tmp_path / "scored.csv").frame["score"].to_list() == [100.0 - row for row in range(40)]


def test_another_predictor_is_evaluated_by_id(samples: Path, tmp_path: Path, paceline: Run) -> None:
    frame = pl.read_csv(samples)
    exact = frame.select("id", score="output_tokens").reverse()
    exact.write_csv(tmp_path / "exact.csv")
    done = paceline("rank", "evaluate", samples, "--scores", "exact.csv", "--json", "--resamples", "10")
    assert [row["tau"] for row in json.loads(done.stdout)["rows"]] == [pytest.approx(1), pytest.approx(1)]
    exact.head(299).write_csv(tmp_path / "short.csv")
    done = paceline("rank", "evaluate", samples, "--scores", "short.csv")
    assert done.returncode == 2
    assert "must have a score for each id" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("score", "empty.jsonl", "--out", "o.jsonl"),
            "empty.jsonl, line 2: prompt must be a text that is not empty",
        ),
        (("score", "two.jsonl", "--out", "o.txt"), "o.txt: the name of a written table must end in .csv"),
        (("score", "two.jsonl", "--out", "o.csv", "--model", "."), "must be the folder of a saved ranker"),
        (("train", "two.jsonl", "--out", "m"), "must have the column prompt and one of output_tokens"),
        (
            ("train", "two.jsonl", "--out", "m", "--epochs", "2"),
            "--epochs has no meaning with --family light",
        ),
        (
            ("train", "two.jsonl", "--out", "m", "--objective", "listwise", "--delta", "0.1"),
            "--delta has no meaning with --objective listwise",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    words: tuple[str, ...], message: str, tmp_path: Path, paceline: Run
) -> None:
    (tmp_path / "two.jsonl").write_text('{"id": 1, "prompt": "a"}\n{"id": 2, "prompt": "b"}\n')
    (tmp_path / "empty.jsonl").write_text('{"id": 1, "prompt": "a"}\n{"id": 2, "prompt": " "}\n')
    done = paceline("rank", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_neural_family_asks_for_an_encoder(paceline: Run) -> None:
    done = paceline("rank", "train", "samples.csv", "--out", "m", "--family", "neural")
    assert (done.returncode, "--encoder must be given with --family neural" in done.stderr) == (2, True)
