"""Each format from a few lines written here."""

from __future__ import annotations

import pytest

from paceline.errors import TraceError
from paceline.trace import read_trace

from .conftest import Written

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def test_azure_of_2024_has_a_zone(written: Written) -> None:
    text = f"{AZURE}2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:00.017335+00:00,2399,6\n"
    assert read_trace(written(text)).frame["arrival"].to_list() == pytest.approx([0.0, 0.007405], abs=1e-12)


def test_stamps_count_from_the_earliest_also_when_it_is_not_the_first(written: Written) -> None:
    text = f"{AZURE}2023-11-16 18:00:02,7,1\n2023-11-16 18:00:00.5,8,2\n2023-11-16 18:00:02,9,3"
    frame = read_trace(written(text)).frame
    assert frame["arrival"].to_list() == [0.0, 1.5, 1.5]
    assert frame["prompt_tokens"].to_list() == [8, 7, 9]


def test_stamps_are_the_nearest_numbers_to_their_differences(written: Written) -> None:
    rows = [
        "2023-11-16 00:00:00",
        "2023-11-16 09:00:00",
        "2023-11-16 09:00:00.1",
        "2024-04-30 00:00:00.000000001",
    ]
    frame = read_trace(written(AZURE + "".join(f"{stamp},7,1\n" for stamp in rows))).frame
    # The last is past 2**53 nanoseconds.
    assert frame["arrival"].to_list() == [0.0, 32400.0, 32400.1, 166 * 86400 + 1e-9]


def test_mooncakes_milliseconds_are_the_nearest_numbers(written: Written) -> None:
    rows = "".join(f'{{"timestamp": {at}, "input_length": 5, "output_length": 3}}\n' for at in range(3000))
    assert read_trace(written(rows)).frame["arrival"].to_list() == [at / 1000 for at in range(3000)]


def test_windows_line_ends_and_a_byte_order_mark_are_passed_over(written: Written) -> None:
    plain = f"{AZURE}2023-11-16 18:00:02,7,1\n2023-11-16 18:00:03,8,2\n"
    windows = b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode() + b"\r\n\r\n"
    assert read_trace(written(plain)) == read_trace(written(windows))


BURSTGPT = "Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def test_burstgpt_in_its_newer_layout_keeps_sessions_and_what_was_measured(written: Written) -> None:
    old = read_trace(written(f"Timestamp,{BURSTGPT}5,ChatGPT,472,18,490,API log\n"))
    new = read_trace(
        written(f"Timestamp,Session ID,Elapsed time,{BURSTGPT}5,17,3.5,ChatGPT,472,18,490,API log\n")
    )
    assert old.frame.columns == ["arrival", "prompt_tokens", "output_tokens", "measured_model", "Log Type"]
    assert new.frame["session"].to_list() == ["17"]
    assert new.frame["measured_e2e"].to_list() == [3.5]
    assert new.frame.select(old.frame.columns).equals(old.frame)


def test_a_turn_of_burstgpt_waits_for_the_answer_before_it_if_asked(written: Written) -> None:
    text = f"Timestamp,Session ID,Elapsed time,{BURSTGPT}" + (
        "10,1,4.5,GPT-4,5,6,11,Conversation log\n"
        "12,2,,GPT-4,5,6,11,Conversation log\n"
        "13,,2,GPT-4,5,6,11,API log\n"
        "16,1,1,GPT-4,5,0,5,Conversation log\n"
        "20,1,9,GPT-4,5,6,11,Conversation log\n"
        "21,2,0,GPT-4,5,6,11,Conversation log\n"
        "25,1,1,GPT-4,5,6,11,Conversation log\n"
    )
    trace = read_trace(written(text), arrivals="dependent")
    # 20 - 10 - 4.5, as the turn at 16 failed; 21 - 12, as no time is given; 25 - 20 - 9 is negative
    assert trace.frame["think_time"].to_list() == [None, None, None, 5.5, 9.0, 0.0]
    assert trace.frame["arrival"].to_list() == [10.0, 12.0, 13.0, 20.0, 21.0, 25.0]
    assert "think_time" not in read_trace(written(text)).frame.columns
    with pytest.raises(
        TraceError, match=r"line 2: Elapsed time must be a finite number, not negative, was '-4\.5'"
    ):
        read_trace(written(text.replace("4.5", "-4.5")))
    with pytest.raises(TraceError, match="needs the column Session ID"):
        read_trace(written(f"Timestamp,{BURSTGPT}5,ChatGPT,4,1,5,API log\n"), arrivals="dependent")


def test_vidur_lengths_may_be_floats_that_are_whole(written: Written) -> None:
    text = "arrived_at,num_prefill_tokens,num_decode_tokens\n1.5,4808.0,10\n2.0,30,7.\n"
    assert read_trace(written(text)).frame.rows() == [(1.5, 4808, 10), (2.0, 30, 7)]


def test_mooncake_without_hashes_has_no_prefix(written: Written) -> None:
    text = '{"timestamp": 1500, "input_length": 10, "output_length": 3}\n'
    trace = read_trace(written(text, "t.jsonl"))
    assert trace.frame.rows() == [(1.5, 10, 3)]
    assert trace.prefix_block_tokens is None


def test_own_csv_reads_every_column(written: Written) -> None:
    text = (
        "prompt_tokens,arrival,output_tokens,reasoning_tokens,priority,score,tenant,session,prefix,"
        "prefix_block_tokens\n"
        '40,0.25,9,4,-3,1e-3,"a, b",s1,5 18446744073709551615,32\n'
        "33,0.5,9,0,2,-7,,s2,,32\n"
    )
    trace = read_trace(written(text))
    assert trace.prefix_block_tokens == 32
    assert trace.frame.rows(named=True) == [
        {
            "arrival": 0.25, "prompt_tokens": 40, "output_tokens": 9, "reasoning_tokens": 4, "priority": -3,
            "score": 0.001, "tenant": "a, b", "session": "s1", "prefix": [5, 2**64 - 1],
        },
        {
            "arrival": 0.5, "prompt_tokens": 33, "output_tokens": 9, "reasoning_tokens": 0, "priority": 2,
            "score": -7.0, "tenant": None, "session": "s2", "prefix": [],
        },
    ]  # fmt: skip


def test_blank_lines_between_json_objects_are_passed_over(written: Written) -> None:
    row = '{"arrival":%s,"prompt_tokens":5,"output_tokens":6}'
    text = f"{row % 0}\n\n   \n{row % 1}\n\n"
    assert len(read_trace(written(text, "t.jsonl"))) == 2


def test_the_name_is_the_files_without_its_suffixes(written: Written) -> None:
    assert read_trace(written(f"{AZURE}2023-11-16 18:00:02,7,1", "conv.csv")).name == "conv"
