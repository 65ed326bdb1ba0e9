"""How `sample` is told apart, and which interval it gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import ConfigError
from paceline.sampling import MOST_ROWS, sample_from_text, sample_to_wire

SECOND = 10**12


def wire(sample: float, *arrivals: int, until: int | None = None, instances: int = 1) -> dict[str, int]:
    ticks = np.array(arrivals, dtype=np.uint64)
    return sample_to_wire(sample, instances=instances, arrivals=ticks, until=until)


def test_a_float_is_seconds_and_a_whole_number_is_points() -> None:
    assert wire(2.0, 0, 100 * SECOND) == {"every": 2 * SECOND, "most": MOST_ROWS}
    assert wire(2, 0, 100 * SECOND) == {"every": 50 * SECOND, "most": 2}


def test_instances_share_the_rows() -> None:
    assert wire(1.0, 0, instances=1000)["most"] == MOST_ROWS // 1000


@given(points=st.integers(2, 5000), last=st.integers(0, 10**18), until=st.none() | st.integers(0, 10**18))
def test_points_are_never_exceeded_before_the_last_arrival(points: int, last: int, until: int | None) -> None:
    every = wire(points, 0, last, until=until)["every"]
    span = last if until is None else min(last, until)
    assert span // every <= points
    # A shorter interval would exceed them, or the shortest interval is reached.
    assert every == 10**6 or (span - 1) // (every - 1) >= points


def test_a_trace_without_requests_has_an_interval() -> None:
    assert wire(100)["every"] == 10**6


@pytest.mark.parametrize(
    ("text", "sample"),
    [("1s", 1.0), ("500ms", 0.5), ("2.5", 2.5), ("0.25 s", 0.25), ("7", 7), ("1000", 1000)],
)
def test_the_command_line_writes_seconds_with_a_unit_or_a_point(text: str, sample: float) -> None:
    found = sample_from_text(text)
    assert found == sample
    assert type(found) is type(sample)


@pytest.mark.parametrize("text", ["", "1m", "-1", "1e3", "s", "1.0.0", "nan"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sample must be seconds .* was "):
        sample_from_text(text)
