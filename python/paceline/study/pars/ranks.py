"""How well lengths are ranked: by method, without the filter, across models."""

from __future__ import annotations

import polars as pl

from paceline.study.model import Fact, Table
from paceline.study.pages import Content
from paceline.study.pars.corpora import MODELS
from paceline.study.pars.measured import Measured, measured, validated
from paceline.study.pars.paper import PAPER
from paceline.study.pars.predictors import METHODS, Predictors

__all__ = ["across_page", "filter_page", "methods_page", "neural_page"]

_HERE = ("gpt4", "llama")
"""The paper's models that answered AlpacaEval's prompts too."""


def methods_page(found: Predictors) -> dict[str, Content]:
    """Return tau by objective, and the paper's beside ours."""
    rows = [
        {
            "prompts": at.title,
            "length of the prompt": str(found.tau_of_prompts(name)),
            **{method: str(found.tau(name, method)) for method in METHODS if method != "unfiltered"},
        }
        for name, at in found.corpora.items()
    ]
    facts = [
        Fact.compare(
            PAPER["table-2", name, method],
            found.tau(name, method).value,
            "predicted",
            name=f"{method}, {name}",
            notes=("other prompts, and 604 of them",),
        )
        for name in _HERE
        if name in found.corpora
        for method in ("listwise", "pointwise", "pairwise")
    ]
    return {"taus": Table(pl.DataFrame(rows)), "table-2": facts}


def neural_page() -> dict[str, Content]:
    """Return tau of neural rankers on held-out prompts, as they were measured where PyTorch is installed."""
    rows = [
        {
            **_neural_row(each),
            "held out": f"{each.samples} {'last' if each.split == 'last' else f'drawn by seed {each.split}'}",
            "tau-b": _with_interval(each),
            "paper's, Llama on Alpaca": _paper_encoder(each),
        }
        for each in measured()
    ]
    chosen_by = [
        {
            **_neural_row(each),
            "trained on": each.trained_on,
            "judged on": each.samples,
            "tau-b": _with_interval(each),
        }
        for each in validated()
    ]
    return {
        "neural-taus": Table(pl.DataFrame(rows), {"paper's, Llama on Alpaca": ".2f"}),
        "neural-choice": Table(pl.DataFrame(chosen_by)),
    }


def _neural_row(found: Measured) -> dict[str, object]:
    return {
        "objective": found.objective,
        "encoder": found.encoder,
        "pooling": found.pooling,
        "encoders": found.encoders,
        "light share": found.light_share,
        "epochs": found.epochs,
        "seed": found.seed,
    }


def _with_interval(found: Measured) -> str:
    return f"{found.tau:.3f} ({found.low:.3f} to {found.high:.3f})"


def _paper_encoder(found: Measured) -> float | None:
    """Return the paper's tau of the same objective and kind of encoder."""
    if found.name in ("listwise", "pointwise"):
        return PAPER["table-2", "llama", found.name].number
    kind = found.name if found.name in ("t5", "opt") else "bert"
    return PAPER["table-3", "llama", kind].number


def filter_page(found: Predictors) -> dict[str, Content]:
    """Return tau with and without the filter of close lengths."""
    rows = []
    for name, at in found.corpora.items():
        without, filtered = found.tau(name, "unfiltered"), found.tau(name, "pairwise")
        rows.append(
            {
                "prompts": at.title,
                "without": str(without),
                "delta 0.2": str(filtered),
                "difference": filtered.value - without.value,
                "paper's": _paper_gain(name),
            }
        )
    return {"table-4": Table(pl.DataFrame(rows), {"difference": "+.3f", "paper's": "+.2f"})}


def across_page(found: Predictors) -> dict[str, Content]:
    """Return tau by the model whose lengths were trained on and the one that answers."""
    names = [name for name in MODELS if name in found.corpora]
    rows = [
        {"trained on": MODELS[one], **{MODELS[other]: found.tau_across(one, other).value for other in names}}
        for one in names
    ]
    return {"across": Table(pl.DataFrame(rows), dict.fromkeys(MODELS.values(), ".3f"))}


def _paper_gain(name: str) -> float | None:
    if name not in PAPER.names("table-4"):
        return None
    return PAPER["table-4", name, "pairwise"].number - PAPER["table-4", name, "unfiltered"].number
