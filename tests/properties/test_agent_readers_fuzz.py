"""For damaged traces of agents, a reader returns a valid trace or raises `TraceError`; writing keeps them."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import TraceError
from paceline.trace import Trace, read_trace

from .agent_seeds import AGENT_SEEDS
from .test_readers_fuzz import damaged

REQUIRED = ("arrival", "prompt_tokens", "output_tokens")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def read(folder: Path, data: bytes, arrivals: Literal["recorded", "dependent"] | None) -> Trace | None:
    file = folder / "fuzzed"
    file.write_bytes(data)
    refusal = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read_trace(file, arrivals=arrivals)
    except TraceError as error:
        refusal = str(error)
    assert refusal.startswith(str(file))
    return None


@given(data=damaged(st.sampled_from(AGENT_SEEDS)), arrivals=st.sampled_from([None, "recorded", "dependent"]))
def test_damaged_traces_of_agents(
    folder: Path, data: bytes, arrivals: Literal["recorded", "dependent"] | None
) -> None:
    trace = read(folder, data, arrivals)
    if trace is None:
        return
    assert not any(trace.frame[name].null_count() for name in REQUIRED)
    assert trace.frame["arrival"].is_sorted()


@pytest.mark.parametrize("seed", range(len(AGENT_SEEDS)))
@pytest.mark.parametrize("suffix", ["csv", "jsonl.gz", "parquet"])
@pytest.mark.parametrize("arrivals", [None, "dependent"])
def test_a_trace_of_agents_is_the_same_after_writing(
    folder: Path, seed: int, suffix: str, arrivals: Literal["dependent"] | None
) -> None:
    trace = read(folder, AGENT_SEEDS[seed], arrivals)
    assert trace is not None
    trace.write(folder / f"{seed}{arrivals}.{suffix}")
    assert read_trace(folder / f"{seed}{arrivals}.{suffix}") == trace
