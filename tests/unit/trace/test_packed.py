"""Compressed files, whole and damaged; what is in a file decides, not its name."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
import zstandard

from paceline.errors import TraceError
from paceline.trace import read_trace

from .conftest import Written

TEXT = (
    "arrival,prompt_tokens,output_tokens\n" + "".join(f"{i},{i % 97 + 1},{i % 13 + 1}\n" for i in range(999))
).encode()
PACKERS = [gzip.compress, zstandard.ZstdCompressor().compress]


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.zst", "t.csv", "t"])
def test_the_content_decides_and_the_name_does_not(
    written: Written, pack: Callable[[bytes], bytes], name: str
) -> None:
    assert read_trace(written(pack(TEXT), name)) == read_trace(written(TEXT, "plain.csv"))


@pytest.mark.parametrize("pack", PACKERS)
def test_several_members_are_one_file(written: Written, pack: Callable[[bytes], bytes]) -> None:
    assert len(read_trace(written(pack(TEXT[:500]) + pack(TEXT[500:])))) == 999


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize("left", [5, 40, -1, -6])
def test_truncated_data_is_refused(written: Written, pack: Callable[[bytes], bytes], left: int) -> None:
    with pytest.raises(TraceError, match=r"data is (cut short|damaged)"):
        read_trace(written(pack(TEXT)[:left]))


@pytest.mark.parametrize("pack", PACKERS)
def test_rubbish_after_the_data_is_refused(written: Written, pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(TraceError, match=r"data is (cut short|damaged)"):
        read_trace(written(pack(TEXT) + b"rubbish"))
