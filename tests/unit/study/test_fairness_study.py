"""The measures of fairness by hand, and the studies of fair and proposed orders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from paceline.errors import ConfigError
from paceline.study import Work, run_study
from paceline.study.fairness.measures import difference, jain, service
from paceline.study.vllm_proposals import POLICIES


def rows(*requests: tuple[str, float, float, float, float, int, int]) -> pl.DataFrame:
    names = ["tenant", "arrival", "scheduled", "first_token", "finish", "prompt_tokens", "output_tokens"]
    return pl.DataFrame(list(requests), schema=names, orient="row")


def test_jains_index_is_that_of_its_definition() -> None:
    """(1 + 2 + 3)² over 3 · (1 + 4 + 9)."""
    assert jain(np.array([1.0, 2.0, 3.0])) == pytest.approx(36 / 42)
    assert jain(np.array([0.0, 0.0])) == 1.0


def test_service_counts_prompts_at_the_first_token_and_outputs_evenly() -> None:
    """A prompt of 100 at 30 s; 2 · 60 output tokens from 30 to 90 s: a half of them in each minute."""
    found = service(rows(("a", 0.0, 0.0, 30.0, 90.0, 100, 60)), np.array([0.0, 60.0, 120.0]))
    assert found["a"].tolist() == [160.0, 60.0]


def test_only_tenants_that_always_wait_are_compared() -> None:
    """In the first minute a and b have requests waiting throughout; a is served 120, b 20. c never waits."""
    of_a = [("a", 0.0, 0.0, 10.0, 20.0, 100, 10), ("a", 0.0, 70.0, 80.0, 90.0, 1, 1)]
    of_b = [("b", 0.0, 0.0, 10.0, 20.0, 10, 5), ("b", 0.0, 65.0, 80.0, 90.0, 1, 1)]
    of_c = [("c", 0.0, 0.0, 10.0, 20.0, 5_000, 10)]
    assert difference(rows(*of_a, *of_b, *of_c), 120.0) == 100.0
    assert difference(rows(*of_a, *of_c), 120.0) == 0.0


def test_vtc_serves_backlogged_tenants_more_alike_than_fcfs() -> None:
    """It is what VTC bounds, and FCFS does not."""
    tables = run_study("fairness", Work(quick=True)).tables()
    found = dict(tables["fairness"].frame.select("policy", "service difference").iter_rows())
    assert found["VTC"] < found["FCFS"] / 10
    late = tables["fairness-tenants"].frame.filter(pl.col("tenant") == "steady")
    by_policy = dict(late.select("policy", "late").iter_rows())
    assert by_policy["VTC"] < 0.01 < by_policy["FCFS"]


def test_proposed_orders_are_compared_at_three_rates_of_each_trace(root: Path) -> None:
    study = run_study("vllm-proposals", Work(quick=True, data=root / "tests/data/traces"))
    table = study.tables()["vllm-proposals"].frame
    # Mooncake's has prefixes, for all orders; Azure's are served by FCFS and by the shortest prompt.
    counts = dict(table.group_by("trace").len().iter_rows())
    assert counts == {
        "Mooncake conversations": 3 * len(POLICIES),
        "Azure conversations": 3 * 2,
        "Azure code": 3 * 2,
    }
    assert table.null_count().sum_horizontal().item() == 0


def test_residual_sjf_answers_mooncakes_conversations_sooner(shared: Path) -> None:
    """Beyond chance: the interval of the ratio to FCFS lies below 0."""
    study = run_study("vllm-proposals", Work(quick=True, data=shared / "traces"))
    rows = study.tables()["vllm-proposals"].frame.filter(pl.col("policy").str.starts_with("residual"))
    assert len(rows) == 3  # rates of Mooncake's trace
    assert all(cell.endswith("%]") and ", -" in cell.rpartition(";")[2] for cell in rows["mean ttft"])


def test_proposed_orders_need_traces() -> None:
    with pytest.raises(ConfigError, match=r"give a folder with mooncake_conversation\.jsonl\.zst"):
        run_study("vllm-proposals", Work(quick=True))
