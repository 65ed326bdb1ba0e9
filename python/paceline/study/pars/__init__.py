"""PARS' evaluation (Tao et al., 2026) done again: light rankers, real prompts, two A100-40GB."""

from __future__ import annotations

from paceline.errors import ConfigError
from paceline.study.model import Study
from paceline.study.pages import pages
from paceline.study.pars.corpora import MODELS, Corpus, alpaca, answers, reasoning
from paceline.study.pars.latencies import Latencies
from paceline.study.pars.paper import PAPER
from paceline.study.pars.predictors import Predictors
from paceline.study.pars.ranks import across_page, filter_page, methods_page, neural_page
from paceline.study.work import Work

__all__ = ["run"]


def run(work: Work) -> Study:
    """Run the study.

    Parameters
    ----------
    work
        ``quick`` takes 200 prompts of Alpaca and of AlpacaEval, two models' answers, two folds, bursts of
        200, every other load and every fourth tau.
        ``data`` is a folder with Alpaca, AlpacaEval and ServeGen's lengths (see the README of the traces).

    Returns
    -------
    Study
        Its pages.

    Raises
    ------
    ConfigError
        Without ``data``: rankers need prompts.
    """
    if work.data is None:
        raise ConfigError(
            "the study pars trains on prompts: give a folder with alpaca_5000.json.zst, "
            "alpacaeval_prompts.parquet, alpacaeval_output_lengths.parquet and "
            "derived_servegen_r1_10min.csv.zst (--data FOLDER)"
        )
    names = ("gpt4", "llama") if work.quick else tuple(MODELS)
    most = 200 if work.quick else None
    corpora: dict[str, Corpus] = {"alpaca": alpaca(work.data, most)}
    corpora |= {name: answers(work.data, name, most) for name in names}
    predictors = Predictors(corpora, work)
    predictors.run()
    served = {name: corpora[name] for name in ("alpaca", "llama")} | {"r1": reasoning(work.data)}
    latencies = Latencies(predictors, served, work)
    burst = latencies.burst_page()
    contents = {
        "ranks": methods_page(predictors),
        "neural": neural_page(),
        "filter": filter_page(predictors),
        "across": across_page(predictors),
        "burst": {
            **burst,
            "requests": f"{latencies.requests:,}",
            "seeds": str(len(latencies.seeds)),
        },
        "static": latencies.static_page(),
        "rates": latencies.rates_page(),
        "noise": latencies.noise_page(),
        "choices": latencies.choices_page(),
    }
    return Study(
        name="pars",
        title="PARS: shortest predicted answers first",
        source=PAPER.source,
        pages=pages(__package__, contents),
        quick=work.quick,
    )
