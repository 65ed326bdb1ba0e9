"""The public traces, as their publishers give them, and stand-ins in the same formats.

Counts and sums of the real ones are those of the papers and of awk, those of the stand-ins are in
``tests/data/make.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.errors import TraceError, TraceWarning
from paceline.trace import read_trace


@pytest.fixture
def traces(data: Path) -> Path:
    """Return a folder of traces: the stand-ins, or the real ones."""
    return data / "traces"


def is_real(traces: Path) -> bool:
    """Whether a folder is that of the real traces."""
    return traces.parent.name == "shared"


@pytest.mark.parametrize(
    ("file", "requests"),
    [("azure2023_code.csv.zst", 8_819), ("azure2023_conv.csv.zst", 19_366)],  # Arrow, Table 1
)
def test_azure_has_the_published_number_of_requests(real: Path, file: str, requests: int) -> None:
    trace = read_trace(real / file)
    assert len(trace) == requests
    assert trace.source.kind == "azure"
    assert trace.frame["arrival"][0] == 0.0


def test_azure_stamps_keep_their_seventh_digit_and_the_last_row_needs_no_newline(traces: Path) -> None:
    frame = read_trace(traces / "azure2023_code.csv.zst").frame
    # In the real file 18:17:03.9799600, 18:17:04.0319600 and 19:14:19.9280160; in the other 09:00:00.0000000,
    # 09:00:00.2500002 and 09:10:00.0000003.
    second, last = (0.052, 3435.948056) if is_real(traces) else (0.2500002, 600.0000003)
    assert frame["arrival"][1] == pytest.approx(second, abs=1e-12)
    assert frame.row(-1) == (pytest.approx(last, abs=1e-9), 549, 173)


def test_vidur_holds_the_same_tokens_as_azure(traces: Path) -> None:
    vidur = read_trace(traces / "vidur_splitwise_code.csv.zst")
    azure = read_trace(traces / "azure2023_code.csv.zst")
    tokens = ["prompt_tokens", "output_tokens"]
    assert vidur.frame.select(tokens).equals(azure.frame.select(tokens))
    assert vidur.frame["arrival"].to_list() == pytest.approx(azure.frame["arrival"].to_list(), abs=1e-6)


def test_mooncake_has_prefixes_of_512_tokens_and_arrows_clip_has_1756_rows(traces: Path) -> None:
    trace = read_trace(traces / "mooncake_conversation.jsonl.zst")
    # The stand-in has a row each 300 ms, and so 101 in the first 30 s.
    rows, clip, clipped = (12_031, 600.001, 1_756) if is_real(traces) else (201, 30.001, 101)
    assert len(trace) == rows
    assert trace.prefix_block_tokens == 512
    assert trace.frame["prefix"][0].to_list() == list(range(14))
    blocks = sum(-(-prompt // 512) for prompt in trace.frame["prompt_tokens"].to_list())
    assert trace.frame["prefix"].list.len().sum() == blocks
    assert len(trace.window(0.0, clip)) == clipped


def test_mooncake_read_as_vllm_has_it_is_the_same_in_its_own_unit_and_told_of_in_another(
    traces: Path,
) -> None:
    path = traces / "mooncake_conversation.jsonl.zst"
    timed = read_trace(path, format="timed_trace", unit="ms", block_tokens=512)
    assert timed.frame.equals(read_trace(path).frame)
    assert timed.source.detail == ""
    # 12,030 gaps in 3,537 s: 294 ms each on average
    gap = 294 if is_real(traces) else 300
    with pytest.warns(TraceWarning, match=f"a request every {gap} s, .* if they are ms, read with unit='ms'"):
        read_trace(path, unit="s")


def test_burstgpt_drops_its_failed_requests_and_counts_them(traces: Path) -> None:
    trace = read_trace(traces / "burstgpt_1_head400.csv.zst")
    rows, failed, end = (400, 17, 37_274) if is_real(traces) else (60, 5, 905)
    assert len(trace) == rows - failed
    assert dict(trace.dropped) == {"no output": failed}
    assert trace.frame["arrival"][0] == 5.0
    assert trace.span_s == end - 5


def test_burstgpt_with_failures_is_refused_on_request(traces: Path) -> None:
    with pytest.raises(TraceError, match=r"line 22: output_tokens must be at least 1, was 0"):
        read_trace(traces / "burstgpt_1_head400.csv.zst", on_empty_output="error")


@pytest.mark.parametrize(
    ("file", "missing"),
    [
        ("derived_servegen_r1_10min.csv.zst", "missing arrival, output_tokens"),
        ("sarathi_sharegpt8k_lengths.csv.zst", "missing arrived_at"),
        ("vidur_arxiv_lengths.csv.zst", "missing arrived_at"),
        ("servegen_deepseek-r1.tar.zst", "no trace that Paceline knows"),
        ("alpaca_5000.json.zst", "JSON array"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_what_it_lacks(traces: Path, file: str, missing: str) -> None:
    with pytest.raises(TraceError, match=missing):
        read_trace(traces / file)


def test_a_real_table_of_prompts_is_refused_with_what_it_lacks(real: Path) -> None:
    with pytest.raises(TraceError, match="missing arrival, output_tokens"):
        read_trace(real / "alpacaeval_prompts.parquet")
