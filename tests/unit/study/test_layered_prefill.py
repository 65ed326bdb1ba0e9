"""The study of layered prefill: its pages, and how close its predictions come to the paper."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import quick_study
from paceline.objectives import SLO
from paceline.policies.layered_prefill import by_table
from paceline.policy.stages import Layered
from paceline.study import Facts, Study, Work, as_document
from paceline.study.layered_prefill import disaggregated, elsewhere, latency, loads, objectives
from paceline.study.layered_prefill.setting import ARXIV, SHAREGPT, Case, Runs, layered, objective


@pytest.fixture(scope="module")
def quick() -> Study:
    return quick_study.layered_prefill()[0]


def test_every_page_is_there(quick: Study) -> None:
    assert [page.name for page in quick.pages] == [
        *("reading", "fitted", "latency", "objectives", "loads", "tokens"),
        *("energy", "smoothness", "groups", "dense", "disaggregated", "elsewhere"),
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


def test_every_number_says_how_it_came_about(quick: Study) -> None:
    facts = list(quick.facts())
    assert {fact.kind for fact in facts} == {"fitted", "predicted", "chosen to meet it"}
    # Nothing of layered prefill was fitted; of Table 7's bytes a reading was chosen.
    chosen = [fact.name for fact in facts if fact.kind == "chosen to meet it"]
    assert len(chosen) == 4
    assert all(name.endswith("a third of the bytes") for name in chosen)
    others = [fact for fact in facts if "layered" in fact.name and fact.name not in chosen]
    assert others
    assert all(fact.kind == "predicted" for fact in others)
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


def test_progress_reaches_its_end() -> None:
    study, said = quick_study.layered_prefill()
    assert study.quick
    assert said[-1][0] == said[-1][1]
    assert all(earlier[0] <= later[0] for earlier, later in pairwise(said))


def test_gpt_runs_its_24_layers_in_the_groups_of_the_authors_entry_for_12() -> None:
    """Their scheduler has 4, 12, 16 and 24; the log layered-12-of-24 is of this model's layers."""
    for layers, most in ((24, 12), (48, 16)):
        stages = layered(layers).scheduler.stages
        (stage,) = (stage for stage in stages if isinstance(stage, Layered))
        assert (stage.layers, stage.groups) == (layers, by_table(most))
        assert layers % most == 0
    assert objectives.CASES["gpt", ARXIV, 2.1, "layered"].policy == layered(24)


def test_requests_arrive_as_the_authors_client_sends_them() -> None:
    """Seed 0, the first at 0, then exponential gaps from the generator's uniforms; 120 s of them."""
    runs = Runs(Work())
    case = latency.both()["chunked"]
    assert case.requests == 156
    uniform = np.random.RandomState(0).random_sample(155)
    expected = np.concatenate([[0.0], np.cumsum(-np.log(1 - uniform) / 1.3)])
    for seed in (0, 5):
        assert runs.trials.trace(runs.source(case), seed).frame["arrival"].to_numpy() == pytest.approx(
            expected, abs=1e-6
        )
    prompts = [runs.trials.trace(runs.source(case), seed).frame["prompt_tokens"].to_list() for seed in (0, 5)]
    assert prompts[0] != prompts[1]


def test_predictions_say_what_fits_of_equal_cost_make_of_them(quick: Study) -> None:
    facts = {fact.name: fact for fact in quick.facts()}
    for name in ("mean TTFT, layered", "layered prefill lowers mean TTFT by", "arXiv, reduction at 1.3/s",
                 "GPT on arXiv, layered", "step of 32 decodes at 4,096 tokens"):  # fmt: skip
        fact = facts[name]
        words = fact.note.split("fits of equal cost: ")[1].split(";")[0].removesuffix("%")
        least, most = map(float, words.split(" to "))
        assert fact.ours is not None
        # The fit itself is among them; the note has three digits.
        assert least - 0.006 * abs(least) <= fact.ours <= most + 0.006 * abs(most), name
        assert least < most or "GPT" in name, name


def test_the_fits_of_equal_cost_meet_the_observations_as_well() -> None:
    fit = Runs(Work()).fit
    assert fit.equals
    least = min(fit.cost, *(of.cost for of in fit.equals))
    assert all(of.cost <= least + 0.5 for of in fit.equals)
    assert fit.cost <= least + 0.5
    assert all(of.fitted.keys() == fit.fitted.keys() for of in fit.equals)
    assert "experts_matmul" not in fit.fitted


def test_what_has_the_fit_of_something_else_says_so(quick: Study) -> None:
    runs = Runs(Work(quick=True))
    assert runs.borrowed(latency.both()["chunked"]) == ""
    fact = next(fact for fact in quick.facts() if fact.name == "GPT on arXiv, layered")
    assert fact.note.endswith("gpt-oss-20b-bf16 on 2 x h100-sxm has the fit of qwen3-30b-a3b on 2 x h100-sxm")
    (served,) = runs.served(replace(objectives.CASES["gpt", ARXIV, 2.1, "layered"], traces=1))
    assert served.result.totals().borrowed_fits == [fact.note.split("; ")[-1]]
    table = _table(quick, "disaggregated")
    apart = table.filter(pl.col("arrangement").str.starts_with("disaggregated"))
    assert set(apart["fitted to"]) == {"another split"}
    assert set(table.filter(pl.col("arrangement").str.starts_with("colocated"))["fitted to"]) == {"this one"}


def test_the_batch_of_the_gpu_that_prefills_is_a_variation(quick: Study) -> None:
    table = _table(quick, "disaggregated")
    rows = {f"disaggregated, batches of {batch}" for batch in ("8,192", "2,048", "1,024")}
    for _, at in table.group_by("rate, req/s"):
        assert rows < set(at["arrangement"])
    policies = [disaggregated.split(batch).scheduler.max_num_batched_tokens for batch in (8192, 1024)]
    assert policies == [8192, 1024]


def test_small_batches_of_prompts_turn_the_order_round() -> None:
    """At 1.3/s the two GPUs apart have the shorter TTFT in batches of 8,192, the longer in 1,024."""
    runs = Runs(Work())
    together, large, small = (
        runs.middle(replace(disaggregated.CASES[1.3, name], traces=4), "ttft")
        for name in (
            "colocated, layered",
            "disaggregated, batches of 8,192",
            "disaggregated, batches of 1,024",
        )
    )
    assert large < together < small


@pytest.fixture(scope="module")
def full() -> Runs:
    """Return the runs of all traces under the fit alone: the quick study shows the fits of equal cost."""
    runs = Runs(Work())
    runs.fits = runs.fits[:1]
    return runs


# Table 6 of the paper: seconds, and milliseconds between tokens.
TABLE_6 = {
    "chunked": {"ttft": 2.80, "ttft_p99": 8.65, "tbt": 32.9, "tbt_p99": 51.1},
    "layered": {"ttft": 1.24, "ttft_p99": 4.10, "tbt": 21.5, "tbt_p99": 37.1},
}


@pytest.mark.parametrize("schedule", TABLE_6)
@pytest.mark.parametrize("of", TABLE_6["chunked"])
def test_table_6_comes_out_within_15_percent(full: Runs, schedule: str, of: str) -> None:
    ours = full.middle(latency.both()[schedule], of)
    assert ours == pytest.approx(TABLE_6[schedule][of], rel=0.15)


# Table 7 of the paper, its last column.
@pytest.mark.parametrize(("workload", "rate", "stated"), [(SHAREGPT, 2.0, 12.0), (ARXIV, 1.3, 39.0)])
def test_loads_fall_as_the_paper_says_within_four_points(
    full: Runs, workload: str, rate: float, stated: float
) -> None:
    fact = loads.reduction(full, workload, rate, within=True)
    assert fact.ours == pytest.approx(stated, abs=4.0)
    assert fact.holds


def test_a_reduction_that_is_off_does_not_hold() -> None:
    fact = loads.reduction(Runs(Work(quick=True)), ARXIV, 1.3, within=True)
    # The paper's 39.04% by its bytes, 21.7 of 35.6 TB; four points to each side.
    holds = {ours: replace(fact, ours=ours).holds for ours in (35.0, 35.1, 43.0, 43.1)}
    assert holds == {35.0: False, 35.1: True, 43.0: True, 43.1: False}


def test_lengths_in_a_file_are_used_where_they_are_given(data: Path) -> None:
    runs = Runs(Work(quick=True, data=data / "traces"))
    assert runs.workload(SHAREGPT).lengths is not None
    assert runs.workload(ARXIV).lengths is None


def test_a_case_has_as_many_requests_as_the_authors_send() -> None:
    assert Case(workload=SHAREGPT, rate=4.4, policy=layered(48)).requests == 528
    assert Case(workload=SHAREGPT, rate=4.4, policy=layered(48), requests=7).requests == 7
    # Table 5: GPT on arXiv.
    assert objective("gpt", ARXIV) == SLO(ttft=10.0, itl=0.1)


def _table(study: Study, name: str) -> pl.DataFrame:
    return study.tables()[name].frame


def test_tables_beyond_the_paper_say_where_costs_are_of_something_else(quick: Study) -> None:
    by_gpu = _table(quick, "elsewhere-gpus")
    assert set(by_gpu.filter(pl.col("fitted to") == "these")["GPUs"]) == {"h100-sxm"}
    by_model = _table(quick, "elsewhere-rates")
    assert set(by_model.filter(pl.col("fitted to") == "these")["model"]) == {"Qwen"}
    assert set(_table(quick, "elsewhere-arrivals")["arrivals"]) == {
        *("authors' client", "Poisson", "even", "bursty")
    }


def test_prompts_of_one_length_bring_as_many_tokens_as_table_6() -> None:
    runs = Runs(Work())
    for (tokens, _), case in elsewhere.BY_CONTEXT.items():
        frame = runs.trials.trace(runs.source(case), 0).frame
        assert frame["prompt_tokens"].unique().to_list() == [tokens]
        # Table 4's mean prompt of arXiv, at 1.3 requests a second.
        assert case.rate * tokens == pytest.approx(1.3 * 9_194)


def test_offline_every_request_is_there_before_the_first_step_ends() -> None:
    runs = Runs(Work(quick=True))
    case = elsewhere.AT_ONCE["qwen", ARXIV, "chunked"]
    (served,) = runs.served(replace(case, traces=1))
    requests = served.result.requests
    assert requests["arrival"].max() < requests["first_token"].min()  # type: ignore[operator] # floats
    tokens = int(requests["prompt_tokens"].sum() + requests["output_tokens"].sum())
    assert served.throughput == pytest.approx(tokens / float(requests["finish"].max()))  # type: ignore[arg-type]
