"""The study of eviction by the probability of reuse."""

from __future__ import annotations

from paceline.study import Work, run_study


def test_one_category_is_evicted_as_lru() -> None:
    rows = run_study("kv-reuse", Work(quick=True)).tables()["kv-reuse"].frame
    api = [row for row in rows.rows(named=True) if row["workload"] == "alibaba-api"]
    assert api
    assert all(row["relative"] == 0 for row in api), "no turns follow: one order, by last use"
    for row in rows.rows(named=True):
        assert row["LRU"] < row["ideal"]
        # One instance is far from its limits: a replay is close to the order of arrival.
        assert abs(row["LRU"] - row["LRU, curve"]) < 0.02
