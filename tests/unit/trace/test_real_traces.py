"""The public traces, as their publishers give them. Counts and sums are those of the papers and of awk."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.errors import TraceError, TraceWarning
from paceline.trace import read_trace


@pytest.mark.parametrize(
    ("file", "requests"),
    [("azure2023_code.csv.zst", 8_819), ("azure2023_conv.csv.zst", 19_366)],  # Arrow, Table 1
)
def test_azure_has_the_published_number_of_requests(real: Path, file: str, requests: int) -> None:
    trace = read_trace(real / file)
    assert len(trace) == requests
    assert trace.source.kind == "azure"
    assert trace.frame["arrival"][0] == 0.0


def test_azure_stamps_keep_their_seventh_digit_and_the_last_row_needs_no_newline(real: Path) -> None:
    frame = read_trace(real / "azure2023_code.csv.zst").frame
    # 18:17:03.9799600, 18:17:04.0319600 and 19:14:19.9280160 in the file
    assert frame["arrival"][1] == pytest.approx(0.052, abs=1e-12)
    assert frame.row(-1) == (pytest.approx(3435.948056, abs=1e-9), 549, 173)


def test_vidur_holds_the_same_tokens_as_azure(real: Path) -> None:
    vidur = read_trace(real / "vidur_splitwise_code.csv.zst")
    azure = read_trace(real / "azure2023_code.csv.zst")
    tokens = ["prompt_tokens", "output_tokens"]
    assert vidur.frame.select(tokens).equals(azure.frame.select(tokens))
    assert vidur.frame["arrival"].to_list() == pytest.approx(azure.frame["arrival"].to_list(), abs=1e-6)


def test_mooncake_has_prefixes_of_512_tokens_and_arrows_clip_has_1756_rows(real: Path) -> None:
    trace = read_trace(real / "mooncake_conversation.jsonl.zst")
    assert len(trace) == 12_031
    assert trace.prefix_block_tokens == 512
    assert trace.frame["prefix"][0].to_list() == list(range(14))
    blocks = sum(-(-prompt // 512) for prompt in trace.frame["prompt_tokens"].to_list())
    assert trace.frame["prefix"].list.len().sum() == blocks
    assert len(trace.window(0.0, 600.001)) == 1_756


def test_mooncake_read_as_vllm_has_it_is_the_same_in_its_own_unit_and_told_of_in_another(real: Path) -> None:
    path = real / "mooncake_conversation.jsonl.zst"
    timed = read_trace(path, format="timed_trace", unit="ms", block_tokens=512)
    assert timed.frame.equals(read_trace(path).frame)
    assert timed.source.detail == ""
    # 12,030 gaps in 3,537 s: 294 ms each on average
    with pytest.warns(TraceWarning, match="a request every 294 s, .* if they are ms, read with unit='ms'"):
        read_trace(path, unit="s")


def test_burstgpt_drops_its_17_failed_requests_and_counts_them(real: Path) -> None:
    trace = read_trace(real / "burstgpt_1_head400.csv.zst")
    assert len(trace) == 400 - 17
    assert dict(trace.dropped) == {"no output": 17}
    assert trace.frame["arrival"][0] == 5.0
    assert trace.span_s == 37_274 - 5


def test_burstgpt_with_failures_is_refused_on_request(real: Path) -> None:
    with pytest.raises(TraceError, match=r"line 22: output_tokens must be at least 1, was 0"):
        read_trace(real / "burstgpt_1_head400.csv.zst", on_empty_output="error")


@pytest.mark.parametrize(
    ("file", "missing"),
    [
        ("derived_servegen_r1_10min.csv.zst", "missing arrival, output_tokens"),
        ("sarathi_sharegpt8k_lengths.csv.zst", "missing arrived_at"),
        ("vidur_arxiv_lengths.csv.zst", "missing arrived_at"),
        ("servegen_deepseek-r1.tar.zst", "no trace that Paceline knows"),
        ("alpaca_5000.json.zst", "JSON array"),
        ("alpacaeval_prompts.parquet", "missing arrival, output_tokens"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_what_it_lacks(real: Path, file: str, missing: str) -> None:
    with pytest.raises(TraceError, match=missing):
        read_trace(real / file)
