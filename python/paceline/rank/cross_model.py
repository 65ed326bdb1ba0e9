"""How well a ranker of one model's lengths ranks the lengths of another model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline import _check
from paceline._arguments import typed
from paceline.errors import RankError
from paceline.rank.backend import Progress
from paceline.rank.checks import checked_prompts, checked_resamples, numbers
from paceline.rank.metrics import RESAMPLES, tau_with_interval
from paceline.rank.ranker import PairwiseRanker, Ranker

__all__ = ["cross_model"]

_COLUMNS: Final = ("prompt", "model", "output_tokens")

_FIGURES: Final = {"samples": pl.Int64, "tau": pl.Float64, "low": pl.Float64, "high": pl.Float64}


@typed(RankError)
def cross_model(
    frame: pl.DataFrame,
    *,
    ranker: Callable[[], Ranker] | None = None,
    folds: int = 5,
    resamples: int = RESAMPLES,
    seed: int = 0,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """Return tau-b of rankers of each model's lengths against the lengths of every model.

    Prompts are divided into folds at random. For each model and fold a ranker is trained on the model's
    lengths of the other folds' prompts, and scores the prompts of the fold, so that each prompt is scored by
    a ranker that has not seen it, whichever model answered it.

    Parameters
    ----------
    frame
        A row for each answer, with the columns ``prompt``, ``model`` and ``output_tokens``. Models need not
        have answered the same prompts.
    ranker
        Makes a ranker to train; None: `PairwiseRanker` with its defaults, and no prompts held out.
    folds
        Parts of the prompts.
    resamples
        Of the bootstrap, as `tau_with_interval`. Answers of a model to the same prompt are drawn together.
    seed
        Of the folds and the resamples.
    progress
        Called with the rankers trained and those of all.

    Returns
    -------
    polars.DataFrame
        The columns ``trained_on``, ``model``, ``samples``, ``tau``, ``low`` and ``high``: a row for each pair
        of models, in the order in which the frame names them. The last three are null if the model has fewer
        than two answers, or its scores or lengths are all equal.

    Raises
    ------
    RankError
        A column is missing, a row is not usable, there are fewer prompts than folds, or a model has too few
        lengths to train on.

    Examples
    --------
    >>> tasks = ["Name a color.", "Write an essay on rain.", "Name a fruit.", "Write an essay on bees."]
    >>> long, short = [4, 400, 3, 380], [1, 90, 1, 95]
    >>> answers = pl.DataFrame(
    ...     {"prompt": 2 * tasks, "model": ["a"] * 4 + ["b"] * 4, "output_tokens": long + short}
    ... )
    >>> cross_model(answers, folds=4, resamples=10).select("trained_on", "model", "samples").rows()
    [('a', 'a', 4), ('a', 'b', 4), ('b', 'a', 4), ('b', 'b', 4)]

    Notes
    -----
    Source: Tao et al., "PARS" (ISC 2026), whose Cross-Model PARS ranks by a predictor trained on another
    model's lengths (section IV).
    """
    for name in _COLUMNS:
        if name not in frame.columns:
            raise RankError(f"frame must have the column {name}, has {', '.join(frame.columns)}")
    prompts = checked_prompts(frame.get_column("prompt").to_list())
    lengths = numbers("output_tokens", frame.get_column("output_tokens"), "a finite number above 0")
    without = frame.get_column("model").is_null()
    if without.any():
        raise RankError(f"model, row {without.arg_max()}: must name the model that answered, was None")
    texts = list(dict.fromkeys(prompts))
    _check.count("folds", folds, least=2, error=RankError)
    if folds > len(texts):
        raise RankError(f"folds must be at most the {len(texts)} distinct prompts, was {_check.said(folds)}")
    checked_resamples(resamples)
    _check.count("seed", seed, least=0, error=RankError)

    place = {text: index for index, text in enumerate(texts)}
    prompt = np.array([place[text] for text in prompts])
    rows = {
        name: np.flatnonzero((frame.get_column("model") == name).to_numpy())
        for name in frame.get_column("model").unique(maintain_order=True)
    }
    fold = np.random.default_rng(seed).permutation(len(texts)) % folds
    made = _default if ranker is None else ranker
    entries = []
    for number, (source, own) in enumerate(rows.items()):
        scores = np.empty(len(texts))
        for part in range(folds):
            train, judged = own[fold[prompt[own]] != part], np.flatnonzero(fold == part)
            scores[judged] = _trained(made, [prompts[row] for row in train], lengths[train], source).score(
                [texts[index] for index in judged]
            )
            if progress is not None:
                progress(number * folds + part + 1, len(rows) * folds)
        for target, answers in rows.items():
            entry: dict[str, object] = {"trained_on": source, "model": target, "samples": len(answers)}
            entries.append(
                entry | _tau(scores[prompt[answers]], lengths[answers], prompt[answers], resamples, seed)
            )
    return pl.DataFrame(entries, schema_overrides=_FIGURES)


def _default() -> Ranker:
    return PairwiseRanker(held_out=0)


def _trained(
    made: Callable[[], Ranker], prompts: list[str], lengths: npt.NDArray[np.float64], model: object
) -> Ranker:
    ranker = made()
    if not isinstance(ranker, Ranker):
        raise RankError(f"ranker must return a ranker, such as PairwiseRanker(), was {_check.said(ranker)}")
    try:
        return ranker.fit(prompts, lengths)
    except RankError as error:
        raise RankError(f"model {model}, without the prompts of one fold: {error}") from error


def _tau(
    scores: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.float64],
    prompt: npt.NDArray[np.int64],
    resamples: int,
    seed: int,
) -> dict[str, float | None]:
    several = len(np.unique(prompt)) < len(prompt)
    try:
        tau = tau_with_interval(
            scores, lengths, clusters=prompt if several else None, resamples=resamples, seed=seed
        )
    except RankError:
        return dict.fromkeys(("tau", "low", "high"))
    return {"tau": tau.value, "low": tau.low, "high": tau.high}
