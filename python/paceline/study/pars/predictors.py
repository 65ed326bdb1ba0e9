"""Rankers trained and judged on prompts that they were not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Final

import numpy as np
import numpy.typing as npt

from paceline._jobs import Heed, Jobs
from paceline.rank import ListwiseRanker, PairwiseRanker, PointwiseRanker, Ranker, Tau, tau_with_interval
from paceline.study.pars.corpora import Corpus
from paceline.study.work import Work

__all__ = ["METHODS", "Predictors"]

FOLDS: Final = 5
CROSS: Final = "gpt4"
"""The model whose lengths the cross-model ranker is trained on."""

METHODS: Final[dict[str, Callable[[], Ranker]]] = {
    "pairwise": lambda: PairwiseRanker(held_out=0),
    "unfiltered": lambda: PairwiseRanker(delta=0.0, held_out=0),
    "listwise": lambda: ListwiseRanker(held_out=0),
    "pointwise": lambda: PointwiseRanker(held_out=0),
}

_Scores = npt.NDArray[np.float64]


class Predictors:
    """Scores of each corpus by each method, every prompt scored by a ranker that has not seen it.

    Parameters
    ----------
    corpora
        By name. Rankers for AlpacaEval's prompts are trained on Alpaca's too: 483 prompts are few.
    work
        The number of threads, and where progress is reported.
    """

    def __init__(self, corpora: dict[str, Corpus], work: Work) -> None:
        self.corpora = corpora
        self._work = work
        self._scores: dict[tuple[str, str, str], _Scores] = {}
        self._total = self._done = 0

    def run(self) -> None:
        """Train all rankers."""
        evaluated = [name for name in self.corpora if name != "alpaca"]
        keys = [(method, name, name) for name in self.corpora for method in METHODS]
        keys += [("pairwise", one, other) for one in evaluated for other in evaluated if one != other]
        # A ranker of one model scores the prompts for all of them.
        trained = list(dict.fromkeys((method, source) for method, source, _ in keys))
        with closing(Jobs(trained, self._cross_fitted, workers=self._work.threads()).ended()) as ended:
            for place, scores in filter(None, ended):
                method, source = trained[place]
                for target in self.corpora if source != "alpaca" else [source]:
                    if target == source or (target != "alpaca" and method == "pairwise"):
                        self._scores[method, source, target] = scores
                self._done += 1
                if self._work.report is not None:
                    self._work.report(f"{method} on {self.corpora[source].title}", self._done, len(trained))

    def scores(self, corpus: str, method: str) -> _Scores:
        """Return the scores of a corpus; ``cross`` is the ranker of another model's lengths."""
        if method == "cross":
            return self._scores["pairwise", CROSS, corpus]
        return self._scores[method, corpus, corpus]

    def tau(self, corpus: str, method: str) -> Tau:
        """Return Kendall's tau-b of a method's scores, with its interval."""
        return tau_with_interval(self.scores(corpus, method), self.corpora[corpus].lengths, resamples=300)

    def tau_across(self, source: str, target: str) -> Tau:
        """Return tau-b of the ranker of one model's lengths against another's."""
        scores = self._scores["pairwise", source, target]
        return tau_with_interval(scores, self.corpora[target].lengths, resamples=300)

    def tau_of_prompts(self, corpus: str) -> Tau:
        """Return tau-b of the length of the prompt."""
        at = self.corpora[corpus]
        return tau_with_interval([len(prompt) for prompt in at.prompts], at.lengths, resamples=300)

    def _cross_fitted(self, key: tuple[str, str], heed: Heed) -> _Scores:
        method, source = key
        at, folds = self.corpora[source], self._work.pick(FOLDS, 2)
        fold = np.random.default_rng(0).permutation(len(at)) % folds
        scores = np.empty(len(at))
        for part in range(folds):
            heed(part / folds)
            held = fold == part
            scores[held] = self._trained(method, source, np.flatnonzero(~held)).score(
                [at.prompts[row] for row in np.flatnonzero(held)]
            )
        return scores

    def _trained(self, method: str, source: str, rows: Iterable[np.int64]) -> Ranker:
        at = self.corpora[source]
        chosen = list(rows)
        prompts = [at.prompts[row] for row in chosen]
        lengths = at.lengths[chosen]
        groups = [source] * len(chosen)
        if source != "alpaca":
            base = self.corpora["alpaca"]
            prompts, groups = prompts + base.prompts, groups + ["alpaca"] * len(base)
            lengths = np.concatenate([lengths, base.lengths])
        return METHODS[method]().fit(prompts, lengths, groups=groups)
