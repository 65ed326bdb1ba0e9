"""For any bytes, a reader returns a valid trace or raises one of three exceptions."""

from __future__ import annotations

import gzip
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from paceline.errors import TraceError, TraceWarning
from paceline.trace import Trace, read_trace

BURSTGPT = b"Model,Request tokens,Response tokens,Total tokens,Log Type"
SEEDS = [
    b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,48,10\n2023-11-16 18:17:04,3,8",
    b"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n",
    b"Timestamp," + BURSTGPT + b"\n5,ChatGPT,472,18,490,API log\n9,GPT-4,0,0,0,API log\n",
    b"Timestamp,Session ID,Elapsed time," + BURSTGPT + b"\n5,1,2.5,ChatGPT,4,1,5,API log\n",
    b'{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n'
    b'{"timestamp": 3000, "input_length": 5, "output_length": 50, "hash_ids": [2]}\n',
    b'{"session_id": "a", "timestamp": 0, "input_length": 600, "output_length": 5, "priority": 3}\n'
    b'{"session_id": "a", "delay": 2500, "input_length": 700, "output_length": 50, "hash_ids": [2]}\n',
    b'{"request_id": "r", "timestamp": "0", "input_tokens": 6, "output_tokens": 5, "wait_for": []}\n'
    b'{"request_id": 2, "input_tokens": 6, "output_tokens": 5, "wait_for": ["r"], "tool_wait_ms": 8.5}\n',
    b'{"num_turns": 1, "input_prompt_length": 8, "assistant_response_length": [2], "tool_call_latency": [1],'
    b' "tool_call_output_length": [3], "final_assistant_response_length": 1}',
    b'{"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 40, "output_length": 9,'
    b' "type": "text", "turn": 1, "hash_ids": [5, 6, 7]}\n'
    b'{"chat_id": 2, "parent_chat_id": 1, "timestamp": 3.5, "input_length": 60, "output_length": 9,'
    b' "type": "text", "turn": 2, "hash_ids": [5, 6, 8]}\n'
    b'{"chat_id": 3, "parent_chat_id": 1, "timestamp": 4.5, "input_length": 60, "output_length": 9}\n',
    b'{"timestamp": 19, "requests": [{"prompt_length": 7, "output_length": 3, "session_id": 0}]}\n'
    b'{"timestamp": 29, "requests": [{"prompt_length": 9, "output_length": null}]}\n',
    b"arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,4808,10\n0.052,3180.0,8\n",
    b"arrival,prompt_tokens,output_tokens,tenant,prefix,prefix_block_tokens\n"
    b'0,5,6,"a ""b""",7 8,4\n1,5,6,,,4\n',
    b'{"arrival":0.5,"prompt_tokens":5,"output_tokens":6,"score":1e-3,"session":"s",'
    b'"prefix":[1],"prefix_block_tokens":9}',
]
WHOLE = (
    "arrival",
    "prompt_tokens",
    "output_tokens",
    "reasoning_tokens",
    "priority",
    "score",
    "parents",
    "prefix",
)
"""Columns in which every row of a trace has a value."""
TRICKS = [
    *(b"", b"\n", b"\r", b"\r\n", b",", b'"', b"'", b"\x00", b"\xff", b"\xef\xbb\xbf", b" ", b"\t"),
    *(b"-", b"+", b".", b"e9", b"nan", b"NaN", b"inf", b"1e400", b"-1", b"0", b"1.5", b"2147483648"),
    *(b"18446744073709551616", b"9" * 400, b"null", b"true", b"{", b"}", b"[", b"]", b"[" * 3000),
    *(b"\xd9\xa3", b"2023-11-16 18:17:03", b"9999-12-31 23:59:59.999999999"),
]


@pytest.fixture(scope="module")
def parquet() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        Trace.from_columns(
            arrival=[0, 1], prompt_tokens=[5, 6], output_tokens=[7, 8], tenant=["a", None]
        ).write(path)
        return path.read_bytes()


@pytest.fixture(scope="module")
def file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "fuzzed"


@st.composite
def damaged(draw: st.DrawFn, seeds: st.SearchStrategy[bytes], most: int = 4) -> bytes:
    """Draw a valid file with some pieces cut, replaced or inserted."""
    data = draw(seeds)
    for _ in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 12)))
        data = data[:start] + draw(st.sampled_from(TRICKS) | st.binary(max_size=4)) + data[end:]
    return data


def survives(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    refusal = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)
        try:
            trace = read_trace(file)
        except TraceError as error:
            refusal = str(error)
    if refusal is not None:
        assert refusal.startswith(str(file))
        return
    frame = trace.frame
    arrival = frame["arrival"].to_numpy()
    assert len(trace) >= 1
    assert np.isfinite(arrival).all()
    assert (arrival >= 0).all()
    assert (np.diff(arrival) >= 0).all()
    for name in ("prompt_tokens", "output_tokens"):
        assert 1 <= frame[name].min() <= frame[name].max() < 2**30  # type: ignore[operator]
    assert not any(frame[name].null_count() for name in WHOLE if name in frame.columns)


@given(data=st.binary(max_size=200))
@example(data=b"PAR1")
@example(data=b"\x1f\x8b")
@example(data=b"\x28\xb5\x2f\xfd")
def test_any_bytes(file: Path, data: bytes) -> None:
    survives(file, data)


@given(data=damaged(st.sampled_from(SEEDS)))
def test_damaged_text(file: Path, data: bytes) -> None:
    survives(file, data)


@given(seed=st.sampled_from(SEEDS), data=st.data())
def test_damaged_packing(file: Path, seed: bytes, data: st.DataObject) -> None:
    packed = data.draw(
        st.sampled_from([gzip.compress(seed, mtime=0), zstandard.ZstdCompressor().compress(seed)])
    )
    survives(file, data.draw(damaged(st.just(packed))))


@given(data=st.data())
def test_parquet_damaged_in_one_place(file: Path, parquet: bytes, data: st.DataObject) -> None:
    # In one place only: if both the checksum and the rest are damaged, polars may abort the process.
    survives(file, data.draw(damaged(st.just(parquet), most=1)))


@given(left=st.floats(0, 1, exclude_max=True))
def test_truncated_parquet_is_refused(file: Path, parquet: bytes, left: float) -> None:
    file.write_bytes(parquet[: int(left * len(parquet))])
    with pytest.raises(TraceError):
        read_trace(file)


@given(
    header=st.sampled_from([seed.split(b"\n")[0] for seed in SEEDS]),
    rows=st.lists(st.text(max_size=30), max_size=4),
)
def test_any_rows_under_a_known_header(file: Path, header: bytes, rows: list[str]) -> None:
    text = "\n".join(rows).encode("utf-8", "surrogatepass")
    survives(file, header + b"\n" + text)


@given(
    arrival=st.lists(st.floats(0, 1e6), min_size=1, max_size=20),
    data=st.data(),
)
def test_good_rows_are_all_read_and_sorted_stably(
    file: Path, arrival: list[float], data: st.DataObject
) -> None:
    counts = st.lists(st.integers(0, 2**30 - 1), min_size=len(arrival), max_size=len(arrival))
    prompts = [count or 1 for count in data.draw(counts)]
    outputs = data.draw(counts)
    rows = list(zip(arrival, prompts, outputs, strict=True))
    good = [row for row in rows if row[2] > 0]
    text = "\n".join(
        ["arrived_at,num_prefill_tokens,num_decode_tokens", *(f"{a!r},{p},{o}" for a, p, o in rows)]
    )
    file.write_text(text, encoding="utf-8")
    if not good:
        with pytest.raises(TraceError, match="must have a request with output"):
            read_trace(file)
        return
    trace = read_trace(file)
    assert trace.frame.rows() == sorted(good, key=lambda row: row[0])
    assert trace.dropped.get("no output", 0) == len(rows) - len(good)
