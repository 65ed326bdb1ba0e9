"""`paceline trace`: a summary, and traces made from a trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.running import Run
from paceline import read_trace


def test_a_trace_is_summarized_with_and_without_the_word(paceline: Run, small_trace: Path) -> None:
    short, long = (paceline("trace", *words, small_trace, "--json") for words in ([], ["info"]))
    assert short.stdout == long.stdout
    document = json.loads(short.stdout)
    assert (document["requests"], document["span_s"]) == (40, 9.75)


def test_a_converted_trace_is_equal(paceline: Run, small_trace: Path, tmp_path: Path) -> None:
    assert paceline("trace", "convert", small_trace, "--out", tmp_path / "same.parquet").returncode == 0
    assert read_trace(tmp_path / "same.parquet").frame.equals(read_trace(small_trace).frame)


def test_a_trace_is_read_as_the_options_say(paceline: Run, tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").write_text(
        '{"session_id": 1, "timestamp": 0, "input_length": 40, "output_length": 5, "hash_ids": [1, 2, 3]}\n'
        '{"session_id": 1, "timestamp": 8, "input_length": 48, "output_length": 6, "hash_ids": [1, 2, 3]}\n'
    )
    words = ("--format", "timed_trace", "--unit", "ms", "--block-tokens", 15)
    done = paceline("trace", "convert", "chat.jsonl", *words, "--out", "out.jsonl")
    assert done.returncode == 0, done.stderr
    trace = read_trace(tmp_path / "out.jsonl")
    assert trace.frame["arrival"].to_list() == [0.0, 0.008]
    assert trace.frame["prompt_tokens"].to_list() == [40, 45]
    done = paceline("trace", "convert", "chat.jsonl", "--arrivals", "dependent", "--out", "out.jsonl")
    assert done.returncode == 2
    assert "must not have more ids than the prompt has blocks of 512 tokens" in done.stderr
    words = ("--arrivals", "dependent", "--block-tokens", 16)
    assert paceline("trace", "convert", "chat.jsonl", *words, "--out", "out.jsonl").returncode == 0
    assert read_trace(tmp_path / "out.jsonl").frame["think_time"].to_list() == [None, 0.008]


def test_a_cut_begins_at_zero_and_leaves_out_its_end(
    paceline: Run, small_trace: Path, tmp_path: Path
) -> None:
    done = paceline("trace", "cut", small_trace, "--start", 2, "--end", 3, "--out", tmp_path / "cut.csv")
    # One every quarter of a second: those at 2, 2.25, 2.5 and 2.75 s.
    assert "wrote 4 requests" in done.stderr
    assert read_trace(tmp_path / "cut.csv").frame["arrival"].to_list() == [0.0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize("words", [("--by", 2), ("--rate", 8.0)])
def test_a_scaled_trace_has_the_rate(
    paceline: Run, small_trace: Path, tmp_path: Path, words: tuple[str, float]
) -> None:
    before = read_trace(small_trace)
    assert paceline("trace", "scale", small_trace, *words, "--out", tmp_path / "fast.jsonl").returncode == 0
    after = read_trace(tmp_path / "fast.jsonl")
    wanted = 2 * before.rate_per_s if words[0] == "--by" else 8.0
    assert after.rate_per_s == pytest.approx(wanted)
    assert after.frame["prompt_tokens"].equals(before.frame["prompt_tokens"])


def test_a_sample_is_the_same_for_a_seed(paceline: Run, small_trace: Path, tmp_path: Path) -> None:
    for name, words in (("a", ("--requests", 10)), ("b", ("--fraction", 0.25)), ("c", ("--requests", 10))):
        seed = 7 if name == "c" else 0
        done = paceline(
            "trace", "sample", small_trace, *words, "--seed", seed, "--out", tmp_path / f"{name}.csv"
        )
        assert "wrote 10 requests" in done.stderr
    first, second, other = (read_trace(tmp_path / f"{name}.csv").frame for name in "abc")
    assert first.equals(second)
    assert not first.equals(other)
    whole = read_trace(small_trace).frame["output_tokens"].to_list()
    assert set(first["output_tokens"]) <= set(whole)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("scale",), "give one of --rate and --by"),
        (("scale", "--rate", 1, "--by", 2), "give one of --rate and --by"),
        (("sample",), "give one of --requests and --fraction"),
        (("sample", "--requests", 41), "from 1 to the 40 requests"),
        (("cut", "--start", 3, "--end", 2), "0 <= start_s < end_s"),
    ],
)
def test_what_cannot_be_made_is_refused(
    paceline: Run, small_trace: Path, words: tuple[object, ...], message: str
) -> None:
    done = paceline("trace", words[0], small_trace, *words[1:], "--out", "new.csv")
    assert done.returncode == 2
    assert message in done.stderr
