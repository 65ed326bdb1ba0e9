"""The study of PARS: its corpora, what is served, and what is compared."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import paceline
from paceline import policies
from paceline.errors import ConfigError
from paceline.rank import kendall_tau
from paceline.study import Work, run_study
from paceline.study.choices import choices
from paceline.study.pars.corpora import MODELS, Corpus, alpaca, answers, reasoning
from paceline.study.pars.latencies import Latencies, variations
from paceline.study.pars.measured import SAME, measured, validated
from paceline.study.pars.neural import held_out, validation
from paceline.study.pars.paper import PAPER
from paceline.study.pars.predictors import Predictors
from paceline.study.pars.served import CLUSTER, Latency, Noise, Served, latency
from paceline.study.trials import Trial


def corpus() -> Corpus:
    lengths = np.arange(1, 401)
    return Corpus("some", "some", lengths.astype(float), np.full(400, 7), lengths)


def test_the_latency_of_a_token_is_end_to_end_over_output_tokens() -> None:
    # Steps of a second: 2 tokens end at 2 s, 4 tokens at 4 s, that is 1 s a token; one arrives a second late.
    trace = paceline.Trace.from_columns(arrival=[0.0, 0.0], prompt_tokens=[1, 1], output_tokens=[2, 4])
    cost = paceline.Affine(step_s=1.0)
    cluster = paceline.Cluster([paceline.Instance(cost=cost, num_blocks=100, block_tokens=1)])
    source = Served(corpus=corpus(), score="oracle")
    policy = policies.vllm()
    trial = Trial(trace=source, cluster=cluster, policy=policy)
    found = latency(trial, trace, paceline.replay(trace, cluster, policy))
    # Finishes at 2 s and 4 s: their quartiles are 2.5 and 3.5, between which one of the two finishes.
    assert found == Latency(mean=1.0, p90=1.0, span_s=4.0, waited_s=1.0, rate=1.0)


def test_all_scores_of_a_seed_are_of_the_same_requests() -> None:
    at = corpus()
    exact = Served(corpus=at, score="oracle").draw(3)
    noisy = Served(corpus=at, score=Noise(tau=0.5)).draw(3)
    columns = ["arrival", "prompt_tokens", "output_tokens"]
    assert exact.frame.select(columns).equals(noisy.frame.select(columns))
    assert exact.frame["arrival"].max() == 0.0
    assert kendall_tau(noisy.frame["score"], noisy.frame["output_tokens"]) == pytest.approx(0.5, abs=0.01)
    assert exact.frame["score"].equals(exact.frame["output_tokens"].cast(pl.Float64))


def test_arrivals_have_the_rate() -> None:
    trace = Served(corpus=corpus(), score="oracle", rate=20.0).draw(0)
    # 2,000 exponential gaps: their sum is within 10% of 100 s by more than four standard deviations.
    assert trace.frame["arrival"].max() == pytest.approx(100.0, rel=0.1)


def test_schedulers_run_as_users_get_them(data: Path) -> None:
    served = {"r1": reasoning(data / "traces")}
    found = Latencies(Predictors({}, Work()), served, Work(quick=True))
    used = {
        trial.policy for system in ("fcfs", "oracle", "pairwise") for trial in found.of("r1", system, None)
    }
    assert used == {policies.vllm(), policies.pars()}
    assert {trial.cluster for trial in found.of("r1", "fcfs", None)} == {CLUSTER}


def test_no_prompt_is_scored_by_a_ranker_that_was_trained_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"prompt {row}" for row in range(50)]
    at = Corpus("alpaca", "some", np.arange(1.0, 51.0), np.ones(50, int), np.arange(1, 51), names)
    seen: list[tuple[set[str], list[str]]] = []

    class Ranker:
        def __init__(self, prompts: list[str]) -> None:
            self.trained = set(prompts)

        def score(self, prompts: list[str]) -> np.ndarray:
            seen.append((self.trained, prompts))
            return np.array([len(prompt) for prompt in prompts], dtype=float)

    monkeypatch.setattr(
        Predictors, "_trained", lambda self, method, source, rows: Ranker([names[row] for row in rows])
    )
    Predictors({"alpaca": at}, Work(workers=1)).run()
    assert len(seen) == 4 * 5
    assert all(trained.isdisjoint(scored) and len(trained) + len(scored) == 50 for trained, scored in seen)


def test_corpora_have_the_requests_that_the_traces_have(data: Path) -> None:
    # Two of Alpaca's first 5,000 have no output, and two of the stand-in's 2,000.
    entries, prompts, windows = (4_998, 604, 10_489) if data.name == "shared" else (1_998, 150, 200)
    traces = data / "traces"
    assert len(alpaca(traces)) == entries
    assert {len(answers(traces, name)) for name in MODELS} == {prompts}
    assert len(reasoning(traces)) == windows


def test_each_variation_of_a_choice_is_replayed() -> None:
    named = [row for choice in choices("paceline.study.pars") for row in choice.rows]
    assert sorted(named) == sorted(variations())


def test_it_needs_data() -> None:
    with pytest.raises(ConfigError, match=r"pars trains on prompts.*--data FOLDER"):
        run_study("pars", Work())


def test_the_numbers_are_those_of_the_paper(shared: Path) -> None:
    text = (shared / "papers/pars.md").read_text(encoding="utf-8")
    said = {float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)}
    assert {stated.number for stated in PAPER.all()} <= said


def test_a_quick_study_has_all_pages(shared: Path) -> None:
    study = run_study("pars", Work(quick=True, data=shared / "traces"))
    tables = study.tables()
    assert {
        "taus",
        "neural-taus",
        "table-4",
        "across",
        "burst",
        "mean-latency",
        "gain",
        "choices-table",
    } <= set(tables)
    gains = tables["gain"].frame.filter(tau=1.0)["FCFS over it"]
    assert gains.min() > 0.95  # perfect scores are never much worse than none


def test_neural_figures_are_of_800_prompts_that_were_not_trained_on() -> None:
    found = measured()
    assert any(each.name == "pairwise" and each.split == "last" for each in found)
    assert {(each.samples, each.trained_on) for each in found} == {(800, 4_198)}
    assert all(each.low < each.tau < each.high for each in found)
    assert len({tuple(getattr(each, name) for name in SAME) for each in found}) == len(found)


def test_neural_settings_were_chosen_by_prompts_that_are_neither_held_out_nor_trained_on() -> None:
    found = validated()
    assert {(each.samples, each.trained_on) for each in found} == {(840, 3_358)}
    assert len({tuple(getattr(each, name) for name in SAME) for each in found}) == len(found)


@pytest.mark.parametrize("split", ["last", "1"])
def test_validation_prompts_are_a_share_of_those_that_are_not_held_out(split: str) -> None:
    held = held_out(4_998, split)
    drawn = validation(held, 0.2)
    assert drawn.sum() == 840  # a fifth of 4,198
    assert not (drawn & held).any()
    assert (drawn == validation(held, 0.2)).all()
    with pytest.raises(ConfigError, match=r"validate must be a share between 0 and 1, was 1\.5"):
        validation(held, 1.5)


def test_held_out_prompts_are_800_drawn_by_the_seed() -> None:
    assert held_out(4_998, "last").nonzero()[0].tolist() == list(range(4_198, 4_998))
    one, same, other = held_out(4_998, "1"), held_out(4_998, "1"), held_out(4_998, "2")
    assert one.sum() == other.sum() == 800
    assert (one == same).all()
    assert not (one == other).all()
    with pytest.raises(ConfigError, match="split must be 'last' or a seed, such as '1', was 'first'"):
        held_out(4_998, "first")
