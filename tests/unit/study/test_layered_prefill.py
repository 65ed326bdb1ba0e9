"""The study of layered prefill: its pages, and how close its predictions come to the paper."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from paceline.study import Facts, Study, Work, as_document, run_study
from paceline.study.layered_prefill import latency, loads, paper
from paceline.study.layered_prefill.setting import ARXIV, SHAREGPT, Runs, middle

SAID: list[tuple[float, float]] = []


@pytest.fixture(scope="module")
def quick() -> Study:
    work = Work(quick=True, report=lambda _, done, total: SAID.append((done, total)))
    return run_study("layered-prefill", work)


def test_every_page_is_there(quick: Study) -> None:
    assert [page.name for page in quick.pages] == [
        *("reading", "fitted", "latency", "objectives", "loads", "tokens"),
        *("energy", "smoothness", "groups", "dense", "disaggregated"),
    ]
    document = as_document(quick)
    assert document["quick"]
    shown = {
        name
        for page in document["pages"].values()
        for kind in ("facts", "tables", "figures")
        for name in page[kind]
    }
    wanted = {"table-2", "table-4", "table-6", "table-7"}
    wanted |= {"figure-2-load", "figure-2-kernels", "figure-3", "figure-4", "figure-5"}
    assert wanted <= shown


def test_every_number_says_whether_it_was_fitted_or_predicted(quick: Study) -> None:
    facts = list(quick.facts())
    assert {fact.kind for fact in facts} == {"fitted", "predicted"}
    # Nothing of layered prefill was fitted.
    assert all(fact.kind == "predicted" for fact in facts if "layered" in fact.name)
    for page in quick.pages:
        for part in page.parts:
            if not isinstance(part, str | Facts):
                assert "(fitted)" in part.caption or "(predicted)" in part.caption, part.name


def test_the_paper_is_quoted_right(quick: Study) -> None:
    facts = {fact.name: fact.paper for fact in quick.facts()}
    assert facts["mean TTFT, layered"] == 1.24
    assert facts["expert load, chunks of 512 at 1.3/s"] == pytest.approx(955)
    assert facts["layered prefill lowers mean E2E by"] == pytest.approx(41, abs=0.6)
    assert facts["arXiv, reduction at 1.3/s"] == pytest.approx(39, abs=0.1)
    assert facts["ShareGPT, reduction at 2/s"] == pytest.approx(12, abs=0.1)


def test_progress_reaches_its_end(quick: Study) -> None:
    assert quick.quick
    assert SAID[-1][0] == SAID[-1][1]
    assert all(earlier[0] <= later[0] for earlier, later in pairwise(SAID))


def test_table_6_is_predicted_within_15_percent() -> None:
    runs = Runs(Work())
    for schedule, case in latency.both().items():
        served = runs.served(case)
        for name in paper.Latencies._fields:
            stated = getattr(paper.TABLE_6[schedule], name)
            assert middle(served, name) == pytest.approx(stated, rel=latency.WITHIN), (schedule, name)


@pytest.mark.parametrize("workload", [ARXIV, SHAREGPT])
def test_loads_fall_as_the_paper_says_within_four_points(workload: str) -> None:
    fact = loads.reduction(Runs(Work()), workload, loads.RATES[workload], within=True)
    said = paper.TABLE_7[workload]
    stated = 100 * (1 - said["layered"] / said["chunked"])
    assert fact.ours == pytest.approx(stated, abs=loads.POINTS)
    assert fact.holds


def test_real_lengths_are_used_where_they_are_given(shared: Path) -> None:
    runs = Runs(Work(quick=True, data=shared / "traces"))
    assert runs.workload(SHAREGPT).lengths is not None
    assert runs.workload(ARXIV).lengths is None
