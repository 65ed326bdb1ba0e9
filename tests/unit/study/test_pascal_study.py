"""The study run, small."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.errors import ConfigError
from paceline.study import Work, as_document, run_study, studies
from paceline.study.model import Figure, Study, Table
from paceline.study.pascal import runs
from paceline.study.pascal.headline import headline_page
from paceline.study.pascal.production import FILE

FIGURES = {
    *("figures-8-and-14", "figure-4", "figure-5a", "figure-5b", "figure-9", "figure-10", "figure-11"),
    *("figure-12", "figure-13a", "figure-13b", "figure-13c", "figure-13d", "figure-15a", "figure-15b"),
    *("figure-15c", "figure-16a", "figure-16b"),
}


@pytest.fixture(scope="module")
def quick() -> Study:
    # Each prompt once: enough to see that all comes together.
    patch = pytest.MonkeyPatch()
    patch.setattr(runs, "TIMES", 1)
    try:
        return run_study("pascal", Work(quick=True))
    finally:
        patch.undo()


def test_the_study_is_among_the_studies() -> None:
    assert "pascal" in studies()


def test_every_figure_of_the_paper_that_is_rebuilt_is_there_once(quick: Study) -> None:
    names = [part.name for page in quick.pages for part in page.parts if isinstance(part, Figure)]
    assert sorted(names) == sorted(FIGURES)
    parts = [part.name for page in quick.pages for part in page.parts if not isinstance(part, str)]
    assert len(parts) == len(set(parts))


def test_the_fitted_numbers_are_the_transfers(quick: Study) -> None:
    facts = {fact.name: fact for fact in quick.facts()}
    fitted = [fact for fact in facts.values() if fact.kind == "fitted"]
    assert {fact.name for fact in fitted} == {
        "AlpacaEval2.0: P99 KV transfer",
        "Arena-Hard: P99 KV transfer",
    }
    # With a fifth of the requests, fewer transfers wait for each other than in the runs that were fitted.
    for fact in fitted:
        assert fact.ours is not None
        assert fact.paper is not None
        assert 0 < fact.ours < 1.2 * fact.paper


def test_every_headline_number_is_within_what_its_unit_allows(quick: Study) -> None:
    for fact in quick.facts():
        assert fact.ours is not None
        assert fact.ours >= (-1 if "less 1" in fact.name else 0), fact.name
        if "cut" in fact.name and not fact.unit:
            assert fact.ours < 1, fact.name


def test_the_shipped_swap_space_holds_what_the_study_preempts(quick: Study) -> None:
    (table,) = (part for part in quick.page("choices").parts if getattr(part, "name", "") == "choices-own")
    assert isinstance(table, Table)
    assert table.frame["preemptions beyond the swap space"].to_list() == [0]


def test_without_data_the_study_says_that_production_was_not_replayed(quick: Study) -> None:
    (text,) = quick.page("production").parts
    assert isinstance(text, str)
    assert FILE in text


def test_a_folder_without_the_production_workload_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"must hold {FILE}"):
        run_study("pascal", Work(quick=True, data=tmp_path))


def test_the_oracle_is_the_least_of_the_latencies_it_is_compared_with(quick: Study) -> None:
    (table,) = (part for part in quick.page("phases").parts if getattr(part, "name", "") == "figure-4-table")
    assert isinstance(table, Table)
    frame = table.frame.with_columns(total=table.frame["blocked"] + table.frame["preempted"])
    oracle = frame.filter(frame["policy"] == "oracle")
    assert oracle["executed"].to_list() == pytest.approx([1.0] * 5, abs=0.01)
    assert oracle["total"].to_list() == pytest.approx([0.0] * 5, abs=0.01)


def test_the_study_is_a_document_for_machines(quick: Study) -> None:
    document = as_document(quick)
    assert document["study"] == "pascal"
    assert set(document["pages"]) == {page.name for page in quick.pages}


def test_headline_numbers_are_medians_with_their_range() -> None:
    keys = [
        *(
            f"{workload} {baseline} {what}"
            for workload in ("alpacaeval", "arena-hard")
            for baseline in ("FCFS", "RR")
            for what in ("cut", "cut_s", "worse", "worse_s", "throughput")
        ),
        *("alpacaeval transfer", "arena-hard transfer", "blocking without", "blocking with"),
        *("violations always", "violations", "e2e median", "e2e tail"),
        *(f"heavy {baseline} {what}" for baseline in ("FCFS", "RR") for what in ("cut", "worse")),
    ]
    by_seed = [dict.fromkeys(keys, value) for value in (0.1, 0.4, 0.2)]
    page = headline_page(by_seed, {"FCFS": 5.0, "RR": 2.0}, {"violations": "because"})
    study = Study(name="s", title="", source="", pages=(page,))
    facts = {fact.name: fact for fact in study.facts()}
    fact = facts["SLO violations with adaptivity"]
    assert (fact.ours, fact.note) == (0.2, "0.1 to 0.4; because")
    assert facts["Figure 4: FCFS at 128 reasoning tokens, over the oracle"].ours == 5.0
