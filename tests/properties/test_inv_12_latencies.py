"""INV-12: latencies are differences of moments."""

from __future__ import annotations

from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from paceline.testing.strategies import clusters, policies, traces


def exact(seconds: float) -> Fraction:
    """Return the whole number of picoseconds that a time was rounded from, as seconds."""
    return Fraction(round(Fraction(seconds) * 10**12), 10**12)


@given(trace=traces(), cluster=clusters(), policy=policies())
def test_each_latency_follows_from_the_moments(
    trace: paceline.Trace, cluster: paceline.Cluster, policy: paceline.Policy
) -> None:
    for row in paceline.replay(trace, cluster, policy).requests.iter_rows(named=True):
        if row["status"] != "finished":
            continue
        moments = (exact(row[name]) for name in ("arrival", "scheduled", "first_token", "finish"))
        arrival, scheduled, first, finish = moments
        assert row["queueing"] == float(scheduled - arrival)
        assert row["ttft"] == float(first - arrival)
        assert row["e2e"] == float(finish - arrival)
        assert row["normalized_latency"] == pytest.approx(
            float((finish - arrival) / row["output_tokens"]), rel=1e-15
        )
        gaps = row["output_tokens"] - 1
        tpot = pytest.approx(float((finish - first) / gaps), rel=1e-15) if gaps else None
        assert row["tpot"] == tpot


@given(trace=traces(), cluster=clusters(), policy=policies(), days=st.integers(1, 121))
def test_a_burst_months_from_the_start_has_the_latencies_of_one_at_the_start(
    trace: paceline.Trace, cluster: paceline.Cluster, policy: paceline.Policy, days: int
) -> None:
    found = []
    for start in (0.0, days * 86_400.0):
        frame = trace.frame.with_columns(pl.lit(start).alias("arrival"))
        burst = paceline.Trace(frame, prefix_block_tokens=trace.prefix_block_tokens)
        found.append(paceline.replay(burst, cluster, policy).requests)
    names = ["queueing", "ttft", "tpot", "e2e", "normalized_latency", "max_itl", "status"]
    assert found[0].select(names).equals(found[1].select(names))
