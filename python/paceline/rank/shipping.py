"""Makes the light ranker that ships: ``python -m paceline.rank.shipping ../shared/traces --out FOLDER``.

It reads Stanford Alpaca (``alpaca_5000.json.zst``) and AlpacaEval with the output lengths of several models
(``alpacaeval_prompts.parquet``, ``alpacaeval_output_lengths.parquet``). Its quality is measured twice on
prompts of AlpacaEval that were not trained on (five folds of prompts): with the answers of all models to
train on, and with those of the model that it is measured on left out. What ships is trained on everything.

The models' taus differ by more than the prompts explain. For a model that is none of these, the card has
Student's prediction interval of one more tau, from the taus of the models that were left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from cyclopts import App, Parameter

from paceline.comparing.student import t_quantile
from paceline.rank.calibration import Calibration
from paceline.rank.examples import Examples, read_examples
from paceline.rank.manifest import Quality
from paceline.rank.metrics import Tau, tau_with_interval
from paceline.rank.ranker import PairwiseRanker, Ranker

__all__ = ["make"]

FOLDS: Final = 5
SETTINGS: Final[dict[str, Any]] = {}
NOTE: Final = (
    "Trained on the first 5,000 entries of Stanford Alpaca (data: CC-BY-NC-4.0), lengths in words, and on "
    "prompts of "
    "AlpacaEval with the output tokens of four models (repository: Apache-2.0). The weights are sums over "
    "hashed "
    "n-grams; no text is contained. Predicted tokens are of AlpacaEval's models."
)


def make(traces: Annotated[Path, Parameter()], /, *, out: Path, seed: int = 0) -> None:
    """Train, measure and write the ranker.

    Parameters
    ----------
    traces
        Folder with the three files.
    out
        Folder to write.
    seed
        Of all that is drawn.
    """
    alpaca = read_examples([traces / "alpaca_5000.json.zst"])
    answers = read_examples(
        [traces / "alpacaeval_prompts.parquet"], lengths=traces / "alpacaeval_output_lengths.parquet"
    )
    models = answers.frame.get_column("model").to_numpy()
    names, prompt = np.unique(answers.prompts, return_inverse=True)
    fold = np.random.default_rng(seed).permutation(len(names))[prompt] % FOLDS
    seen, unseen = np.empty(len(answers)), np.empty(len(answers))
    for part in range(FOLDS):
        held = fold == part
        ranker = _trained(alpaca, answers, ~held, seed)
        seen[held] = ranker.score([answers.prompts[row] for row in np.flatnonzero(held)])
        for model in np.unique(models):
            rows = held & (models == model)
            ranker = _trained(alpaca, answers, ~held & (models != model), seed)
            unseen[rows] = ranker.score([answers.prompts[row] for row in np.flatnonzero(rows)])
    quality = {}
    for name, scores in {"new_prompts": seen, "new_prompts_and_model": unseen}.items():
        quality[name] = _quality(
            tau_with_interval(scores, answers.lengths, groups=models, clusters=prompt, seed=seed),
            f"{len(names)} prompts of AlpacaEval in {FOLDS} folds, mean of {len(np.unique(models))} models",
        )
        for model in np.unique(models):
            rows = models == model
            tau = tau_with_interval(scores[rows], answers.lengths[rows], seed=seed)
            quality[f"{name}: {model}"] = _quality(tau, "of these, one model's answers")
    quality["one_more_model"] = one_more(
        [quality[f"new_prompts_and_model: {model}"] for model in np.unique(models)]
    )
    ranker = _trained(alpaca, answers, np.ones(len(answers), dtype=bool), seed)
    ranker.calibration = Calibration.fit(seen, answers.lengths)
    assert ranker.manifest is not None
    ranker.manifest = msgspec.structs.replace(ranker.manifest, quality=quality)
    ranker.save(out)
    print((out / "README.md").read_text(encoding="utf-8"), end="")


def _trained(alpaca: Examples, answers: Examples, rows: npt.NDArray[np.bool_], seed: int) -> Ranker:
    chosen = np.flatnonzero(rows)
    prompts: Sequence[str] = alpaca.prompts + [answers.prompts[row] for row in chosen]
    lengths = np.concatenate([alpaca.lengths, answers.lengths[chosen]])
    groups = alpaca.groups + [answers.groups[row] for row in chosen]
    return PairwiseRanker(seed=seed, held_out=0, **SETTINGS).fit(prompts, lengths, groups=groups, note=NOTE)


def one_more(taus: Sequence[Quality]) -> Quality:
    """Return the mean of taus with Student's 95% prediction interval of one more.

    The taus' variance is that between models and that of their prompts together, as one more tau has both.

    Examples
    --------
    >>> four = [Quality(tau=tau, low=0, high=1, samples=9, of="") for tau in (0.3, 0.4, 0.4, 0.5)]
    >>> found = one_more(four)
    >>> f"{found.tau:.2f}, {found.low:.3f} to {found.high:.3f}"
    '0.40, 0.109 to 0.691'
    """
    values = np.array([each.tau for each in taus])
    mean = float(values.mean())
    half = (
        t_quantile(0.975, len(values) - 1) * float(values.std(ddof=1)) * float(np.sqrt(1 + 1 / len(values)))
    )
    return Quality(
        tau=mean,
        low=max(-1.0, mean - half),
        high=min(1.0, mean + half),
        samples=sum(each.samples for each in taus),
        of=f"prediction for a model that is none of these: Student's t over {len(values)} models left out",
    )


def _quality(tau: Tau, of: str) -> Quality:
    return Quality(tau=tau.value, low=tau.low, high=tau.high, samples=tau.samples, of=of)


if __name__ == "__main__":
    App(name="python -m paceline.rank.shipping", default_command=make)()
