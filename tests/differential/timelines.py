"""The timeline of the engine in the words of the reference."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from paceline import _core

BYTES = ("hbm_bytes", "flops", "link_bytes", "energy_aj")
"""Columns of what no reference counts: see the test that recounts a whole replay."""

SAMPLES = st.fixed_dictionaries(
    {
        "every": st.sampled_from([1, 3, 10, 50]) | st.integers(1, 200),
        "most": st.sampled_from([2, 3, 8, 50, 2000]),
    }
)


def timeline_of_engine(
    outcome: _core.Outcome, *, without: tuple[str, ...] = BYTES
) -> tuple[int, list[int], list[dict[str, Any]]]:
    """Return the interval, the moments and the rows, without what the reference does not count."""
    assert outcome.timeline is not None
    found = dict(outcome.timeline)
    every, times = found.pop("every"), found.pop("times").tolist()
    columns = {name: values.tolist() for name, values in found.items() if name not in without}
    return every, times, [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
