"""The study run, small."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from paceline.errors import ConfigError
from paceline.study import Work, as_document, run_study
from paceline.study.choices import Comparisons
from paceline.study.model import Figure, Study
from paceline.study.pascal import runs
from paceline.study.pascal.headline import headline_page
from paceline.study.pascal.schedulers import PAPER
from paceline.study.pascal.workloads import FILE

FIGURES = {
    *("figures-8-and-14", "figure-4", "figure-5a", "figure-5b", "figure-9", "figure-10", "figure-11"),
    *("figure-12", "figure-13a", "figure-13b", "figure-13c", "figure-13d", "figure-15a", "figure-15b"),
    *("figure-15c", "figure-16a", "figure-16b"),
}


def _quick(workers: int) -> Study:
    # Each prompt once: enough to see that all comes together.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "TIMES", 1)
        return run_study("pascal", Work(quick=True, workers=workers))


@pytest.fixture(scope="module")
def quick() -> Study:
    return _quick(workers=3)


def test_the_pages_do_not_depend_on_the_number_of_threads(quick: Study) -> None:
    assert as_document(_quick(workers=1)) == as_document(quick)


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
    assert quick.tables()["choices-own"].frame["preemptions beyond the swap space"].to_list() == [0]


def test_without_data_the_study_says_that_production_was_not_replayed(quick: Study) -> None:
    (text,) = quick.page("production-absent").parts
    assert isinstance(text, str)
    assert FILE in text


def test_a_folder_without_the_production_workload_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"must hold {FILE}"):
        run_study("pascal", Work(quick=True, data=tmp_path))


def test_the_oracle_is_the_least_of_the_latencies_it_is_compared_with(quick: Study) -> None:
    frame = quick.tables()["figure-4-table"].frame
    frame = frame.with_columns(total=frame["blocked"] + frame["preempted"])
    oracle = frame.filter(frame["policy"] == "oracle")
    assert oracle["executed"].to_list() == pytest.approx([1.0] * 5, abs=0.01)
    assert oracle["total"].to_list() == pytest.approx([0.0] * 5, abs=0.01)


def test_headline_numbers_are_medians_with_their_range_and_their_note() -> None:
    quotes = [quote for stated in PAPER.table("headline").values() for quote in stated.more.get("quotes", ())]
    rows = {what for quote in quotes for what in quote["rows"]}
    columns = {quote["column"] for quote in quotes}
    quoted = Comparisons(rows=pl.DataFrame([{"what": what, **dict.fromkeys(columns, 0.5)} for what in rows]))
    keys = [key for key in PAPER.table("headline") if not key.startswith("figure 4")]
    # Each number has values of its own, so that a number in the place of another is seen.
    by_seed = [{key: at + off for at, key in enumerate(keys)} for off in (0.1, 0.4, 0.2)]
    tables = dict.fromkeys(("variations", "mixes", "figure 4"), quoted)
    facts = headline_page(by_seed, {"FCFS": 5.0, "RR": 2.0}, tables)["headline-facts"]
    assert isinstance(facts, list)
    assert [fact.ours for fact in facts] == [5.0, 2.0, *(at + 0.2 for at in range(len(keys)))]
    by_name = {fact.name: fact for fact in facts}
    at = keys.index("e2e tail")
    assert by_name["P99 end to end without adaptivity, less 1"].note == (
        f"{at}.1 to {at}.4; depends on load and step time "
        "(load 1: +50%; load 1.2: +50%; steps twice as long: +50%)"
    )
    assert by_name["Figure 4: RR at 2,048 reasoning tokens, over the oracle"].note == (
        "lengths and rate are a reading (multiples of 128: 0.50)"
    )


def test_a_quick_run_has_no_notes() -> None:
    keys = [key for key in PAPER.table("headline") if not key.startswith("figure 4")]
    contents = headline_page([dict.fromkeys(keys, 1.0)], {"FCFS": 5.0, "RR": 2.0}, {})
    assert {fact.note for fact in contents["headline-facts"]} == {""}  # type: ignore[union-attr]
