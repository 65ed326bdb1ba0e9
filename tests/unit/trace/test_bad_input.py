"""Bad input is refused with the file, the line, the rule and the value."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paceline.errors import TraceError
from paceline.trace import read_trace

from .conftest import Written

OWN = "arrival,prompt_tokens,output_tokens"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens"
GOOD_STAMP = "2023-11-16 18:17:03.9799600"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{OWN}\n0,5,6\n1,-5,6", "line 3: prompt_tokens must not be negative, was '-5'"),
        (f"{OWN}\n0,5,6\n1,5.5,6", "line 3: prompt_tokens must be a whole number, not a fraction, was '5.5'"),
        (f"{OWN}\n0,5,6\n1,5,nan", "line 3: output_tokens must be a whole number, was 'nan'"),
        (f"{OWN}\n0,5,6\n1,5,", "line 3: output_tokens is missing"),
        (f"{OWN}\n0,5,6\n1,5", "line 3: output_tokens is missing"),
        (f"{OWN}\n0,5,6\n\n1,5,6", "line 3: arrival is missing"),
        (f"{OWN}\n0,5,6\n1,5,6,7", "line 3: must have 3 fields as the header has, was 4"),
        (f"{OWN}\n0,5,1073741824", "line 2: output_tokens must be below 2**30, was '1073741824'"),
        (f"{OWN}\n0,5,1e30", "line 2: output_tokens must be below 2**30, was '1e30'"),
        (f"{OWN}\n0,0,6", "line 2: prompt_tokens must be at least 1, was 0"),
        (f"{OWN}\nnan,5,6", "line 2: arrival must be a finite number, was 'nan'"),
        (f"{OWN}\ninf,5,6", "line 2: arrival must be a finite number, was 'inf'"),
        (f"{OWN}\n-1,5,6", "line 2: arrival must not be negative, was '-1'"),
        (f"{OWN}\nsoon,5,6", "line 2: arrival must be a finite number, was 'soon'"),
        (f"{OWN}\n16140901,5,6", "line 2: arrival must be below 16,140,901 s"),
        (f"{OWN},reasoning_tokens\n0,5,6,7", "line 2: reasoning_tokens must not exceed output_tokens, was 7"),
        (f"{OWN},priority\n0,5,6,2147483648", "line 2: priority must be a whole number from -2**31"),
        (f"{OWN},ttft\n0,5,6,7", "column 'ttft' must have another name"),
        (f"{OWN},prefix\n0,5,6,7", "prefix_block_tokens must be the prompt tokens of one id"),
        (f"{OWN},prefix,prefix_block_tokens\n0,5,6,7,0", "at least 1, was 0"),
        (f"{OWN},prefix,prefix_block_tokens\n0,5,6,7 8,5", "line 2: prefix must not have more ids than"),
        (f"{OWN},prefix,prefix_block_tokens\n0,5,6,7,5\n0,5,6,7,6", "the same whole number in every row"),
        (f"{OWN},prefix,prefix_block_tokens\n0,5,6,x,5", "line 2: prefix must be block ids"),
        (f"{OWN},tenant\n0,5,6,\"a\nb\"\n1,-5,6,c", "line 4: prompt_tokens must not be negative"),
        (f"{OWN},tenant\n0,5,6,\"a", "no valid CSV"),
        (f"{OWN}\n0,5,0\n0,-5,6", "line 3: prompt_tokens must not be negative"),
        (f"{OWN}\n0,5,0\n0,0,6", "line 3: prompt_tokens must be at least 1, was 0"),
        (f"{OWN}\n0,5,0", "must have a request with output, all 1 rows have none"),
        (f"{OWN}\n", "has a header and no rows"),
        ("arrival,arrival,prompt_tokens,output_tokens\n0,0,5,6", "has the column 'arrival' more than once"),
        ("arrival,prompt_tokens\n0,5", "line 1: missing output_tokens"),
        ("when,how_long\n0,5", "line 1: is no trace that Paceline knows"),
        ("", "is empty"),
        ("\n\r\n\n", "is empty"),
        (f"{AZURE}\n{GOOD_STAMP},5,6\nyesterday,5,6", "line 3: TIMESTAMP must be a date and time like 2023"),
        (f"{AZURE}\n{GOOD_STAMP},5,6\n2023-02-30 00:00:00,5,6", "line 3: TIMESTAMP must be a date and time"),
        # outside what 64 bits of nanoseconds hold, where a conversion may wrap
        (f"{AZURE}\n1500-01-01 00:00:00,5,6", "line 2: TIMESTAMP must be a date and time"),
        (f"{AZURE}\n9999-01-01 00:00:00,5,6", "line 2: TIMESTAMP must be a date and time"),
        (f"{AZURE}\n{GOOD_STAMP},5,6\n{GOOD_STAMP}+00:00,5,6", "line 2: TIMESTAMP must be a date and time"),
        (f"{AZURE}\n{GOOD_STAMP},5,6\n2024-11-16 18:17:03,5,6", "line 3: arrival must be below"),
        (f"{VIDUR}\n0.5,4808.5,6", "line 2: num_prefill_tokens must be a whole number, not a fraction"),
        (b"arrival,prompt_tokens,output_tokens\n0,5,6\n1,\xff,6", "line 3: must be UTF-8 text"),
    ],
)  # fmt: skip
def test_csv(written: Written, text: str | bytes, message: str) -> None:
    path = written(text)
    with pytest.raises(TraceError, match=re.escape(message)) as caught:
        read_trace(path)
    assert str(caught.value).startswith(str(path))


MOONCAKE = '{"timestamp": 0, "input_length": 5, "output_length": 6, "hash_ids": [1]}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"timestamp": 0, "input_length": -5, "output_length": 6}', "line 2: prompt_tokens must be"),
        ('{"timestamp": 0, "input_length": 5.5, "output_length": 6}', "line 2: prompt_tokens must be"),
        ('{"timestamp": 0, "input_length": 1e99, "output_length": 6}', "line 2: prompt_tokens must be"),
        ('{"timestamp": 0, "input_length": "5", "output_length": 6}', "line 2: input_length must be int"),
        ('{"timestamp": NaN, "input_length": 5, "output_length": 6}', "line 2: JSON is malformed"),
        ('{"timestamp": -1, "input_length": 5, "output_length": 6}', "line 2: arrival must not be negative"),
        ('{"timestamp": 0, "input_length": 5}', "line 2: Object missing required field `output_length`"),
        ('{"timestamp": 0, "input_length": 5, "output_length": 6', "line 2: "),
        ('{"timestamp": 0,\n"input_length": 5, "output_length": 6}', "line 2: "),
        ("[0, 5, 6]", "line 2: Expected `object`, got `array`"),
        ("[" * 100_000, "line 2: "),
        ('{"timestamp": 0, "input_length": 5, "output_length": 6, "hash_ids": [1,2]}', "line 2: prefix must"),
        ('{"timestamp": 0, "input_length": 5, "output_length": 6, "hash_ids": [-1]}', "line 2: hash_ids"),
        ('{"timestamp": 0, "input_length": 5, "output_length": 6, "hash_ids":2]}', "line 2: Expected `array"),
    ],
)  # fmt: skip
def test_json_lines(written: Written, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=re.escape(message)):
        read_trace(written(MOONCAKE + text, "t.jsonl"))


def test_a_field_of_our_own_json_that_the_first_line_lacks_is_refused(written: Written) -> None:
    text = '{"arrival": 0, "prompt_tokens": 5, "output_tokens": 6, "region": 1}\n'
    text += '{"arrival": 0, "prompt_tokens": 5, "output_tokens": 6, "zone": 1}'
    with pytest.raises(TraceError, match=r"line 2: Object contains unknown field `zone`"):
        read_trace(written(text, "t.jsonl"))


def test_a_wanted_format_is_held_to(written: Written) -> None:
    with pytest.raises(
        TraceError, match=r"line 1: missing TIMESTAMP, ContextTokens, GeneratedTokens \(read as azure\)"
    ):
        read_trace(written(f"{OWN}\n0,5,6"), format="azure")
    with pytest.raises(TraceError, match="is JSONL, which format 'azure' never is"):
        read_trace(written(MOONCAKE), format="azure")
    with pytest.raises(TraceError, match=r"format of read_trace\(\) must be one of azure"):
        read_trace(written(MOONCAKE), format="csv")  # type: ignore[arg-type]


def test_a_damaged_parquet_file_is_refused(written: Written) -> None:
    with pytest.raises(TraceError, match="no readable Parquet file"):
        read_trace(written(b"PAR1" + bytes(100) + b"PAR1", "t.parquet"))


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_trace(tmp_path / "absent.csv")
    with pytest.raises(TraceError, match="cannot be read as a file"):
        read_trace(tmp_path)
