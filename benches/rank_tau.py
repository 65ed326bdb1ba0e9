"""Compare the light rankers with ridge regression and LightGBM on the same held-out prompts.

Usage: python benches/rank_tau.py [TRACES] [SPLITS]

Each split holds out 800 prompts of Stanford Alpaca: first the last 800, then drawn ones. Ridge regression is
scikit-learn's on the logarithm of lengths, on scikit-learn's own hashed words and pairs of words, and on the
features of the light family; its penalty is the best of four on a fifth of the training prompts. LightGBM
ranks by `lambdarank`, or predicts the logarithm; it sees the simple features and the score of a light ranker
that has not seen the prompt. Both are left out where they are not installed, as in .venv:
pip install scikit-learn lightgbm.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

from paceline.rank import (  # noqa: E402
    ListwiseRanker,
    PairwiseRanker,
    PointwiseRanker,
    kendall_tau,
    tau_with_interval,
)
from paceline.rank.examples import read_examples  # noqa: E402
from paceline.rank.light.features import features  # noqa: E402
from paceline.rank.light.simple import simple_features  # noqa: E402
from paceline.study.pars.neural import held_out  # noqa: E402

_PENALTIES = (0.1, 0.3, 1.0, 3.0)
_BITS = 18
_FOLDS = 5
_LEVELS = 31
"""LightGBM's highest relevance, by default."""

Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]


def main() -> None:
    traces = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/traces")
    splits = ["last", *(str(seed) for seed in range(1, int(sys.argv[2]) if len(sys.argv) > 2 else 5))]
    samples = read_examples([traces / "alpaca_5000.json.zst"])
    prompts, lengths = np.array(samples.prompts, dtype=object), samples.lengths
    methods: dict[str, Predict] = {
        "length of the prompt": lambda _, judged: np.array([len(prompt) for prompt in prompts[judged]]),
        "light, pairwise": _light(PairwiseRanker, prompts, lengths),
        "light, listwise": _light(ListwiseRanker, prompts, lengths),
        "light, pointwise": _light(PointwiseRanker, prompts, lengths),
        **_ridges(prompts, lengths),
        **_boosted(prompts, lengths),
    }
    print(
        "held out: " + ", ".join("the last 800" if split == "last" else f"seed {split}" for split in splits)
    )
    for name, predict in methods.items():
        found = []
        for split in splits:
            held = held_out(len(lengths), split)
            judged = np.flatnonzero(held)
            found.append(
                tau_with_interval(predict(np.flatnonzero(~held), judged), lengths[judged], resamples=300)
            )
        mean = np.mean([each.value for each in found])
        print(f"{name}: mean {mean:.3f}; " + "; ".join(str(each) for each in found), flush=True)


def _light(kind: Any, prompts: np.ndarray, lengths: np.ndarray) -> Predict:
    def predict(trained: np.ndarray, judged: np.ndarray) -> np.ndarray:
        ranker = kind(held_out=0).fit(list(prompts[trained]), lengths[trained])
        return np.asarray(ranker.score(list(prompts[judged])))

    return predict


def _ridges(prompts: np.ndarray, lengths: np.ndarray) -> dict[str, Predict]:
    try:
        from scipy.sparse import csr_matrix, hstack
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.linear_model import Ridge
    except ImportError as error:
        print(f"without ridge regression: {error}")
        return {}
    own = features(list(prompts), _BITS)
    grams = csr_matrix(
        (own.values, own.columns, np.append(own.starts, len(own.columns))), shape=(len(own), 1 << _BITS)
    )
    inputs = {
        "ridge, scikit-learn's hashed words and pairs": HashingVectorizer(
            ngram_range=(1, 2), n_features=1 << _BITS
        ).transform(prompts),
        "ridge, features of the light family": hstack([grams, csr_matrix(own.simple)]).tocsr(),
    }
    target = np.log(lengths)

    def predictor(rows: Any) -> Predict:
        def fitted(trained: np.ndarray, judged: np.ndarray, penalty: float) -> np.ndarray:
            model = Ridge(alpha=penalty, solver="sparse_cg").fit(rows[trained], target[trained])
            return np.asarray(model.predict(rows[judged]))

        def predict(trained: np.ndarray, judged: np.ndarray) -> np.ndarray:
            order = np.random.default_rng(0).permutation(trained)
            chosen, rest = order[: len(order) // 5], order[len(order) // 5 :]
            best = max(
                _PENALTIES, key=lambda penalty: kendall_tau(fitted(rest, chosen, penalty), lengths[chosen])
            )
            return fitted(trained, judged, best)

        return predict

    return {name: predictor(rows) for name, rows in inputs.items()}


def _boosted(prompts: np.ndarray, lengths: np.ndarray) -> dict[str, Predict]:
    try:
        import lightgbm
    except (ImportError, OSError) as error:
        print(f"without LightGBM: {error}")
        return {}
    simple = simple_features(list(prompts)).astype(np.float64)
    settings: dict[str, Any] = {
        "n_estimators": 200,
        "learning_rate": 0.03,
        "num_leaves": 15,
        "subsample": 0.7,
        "subsample_freq": 1,
        "n_jobs": 1,
        "random_state": 0,
        "verbose": -1,
    }

    def inputs(trained: np.ndarray, judged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        light = _light(PairwiseRanker, prompts, lengths)
        fold = np.random.default_rng(0).permutation(len(trained)) % _FOLDS
        scores = np.empty(len(trained))
        for part in range(_FOLDS):
            scores[fold == part] = light(trained[fold != part], trained[fold == part])
        ahead = light(trained, judged)
        return np.column_stack([simple[trained], scores]), np.column_stack([simple[judged], ahead])

    def ranked(trained: np.ndarray, judged: np.ndarray) -> np.ndarray:
        known, asked = inputs(trained, judged)
        place = np.argsort(np.argsort(lengths[trained], kind="stable"), kind="stable")
        relevance = place * (_LEVELS + 1) // len(trained)
        # All prompts are compared with each other, in lists as long as LightGBM takes them.
        sizes = [len(part) for part in np.array_split(trained, 8)]
        gain = list(range(_LEVELS + 1))
        model = lightgbm.LGBMRanker(objective="lambdarank", label_gain=gain, **settings)
        return np.asarray(model.fit(known, relevance, group=sizes).predict(asked))

    def regressed(trained: np.ndarray, judged: np.ndarray) -> np.ndarray:
        known, asked = inputs(trained, judged)
        return np.asarray(
            lightgbm.LGBMRegressor(**settings).fit(known, np.log(lengths[trained])).predict(asked)
        )

    return {"LightGBM, lambdarank": ranked, "LightGBM, regression": regressed}


if __name__ == "__main__":
    main()
