"""Rankers of prompts by the length of their answers: one interface, three objectives, two families."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

import msgspec
import numpy as np
import numpy.typing as npt

from paceline import _check
from paceline._arguments import typed
from paceline._atomic import new_directory
from paceline._core import VERSION
from paceline.errors import RankError
from paceline.rank.backend import Backend, Progress, Training
from paceline.rank.calibration import Calibration
from paceline.rank.card import card
from paceline.rank.checks import checked_groups, checked_lengths, checked_progress, checked_prompts
from paceline.rank.light.model import LightModel
from paceline.rank.manifest import Data, Manifest, Quality, read_manifest, write_manifest
from paceline.rank.metrics import tau_with_interval
from paceline.rank.objectives import Listwise, Objective, Pairwise, Pointwise
from paceline.rank.pairs import DELTA, PARTNERS
from paceline.rank.tensors import read_tensors, write_tensors

__all__ = ["ListwiseRanker", "PairwiseRanker", "PointwiseRanker", "Ranker", "load"]

_CALIBRATION: Final = "calibration.safetensors"

# Below this many held-out prompts neither a tau nor quantiles say much.
_LEAST_HELD_OUT: Final = 20

_SCORED_AT_ONCE: Final = 2_048

_OBJECTIVES: Final[dict[str, Callable[..., Objective]]] = {
    "pairwise": Pairwise,
    "listwise": Listwise,
    "pointwise": Pointwise,
}


class Ranker:
    """What the rankers have in common: see `PairwiseRanker`, `ListwiseRanker` and `PointwiseRanker`.

    Attributes
    ----------
    objective
        What it is trained for.
    backend
        The family's model.
    calibration
        Quantiles of lengths by score; None if too few prompts were held out.
    manifest
        What it was made from; None before it is trained.
    """

    def __init__(
        self,
        objective: Objective,
        *,
        family: Literal["light", "neural"],
        encoder: str | Path | None,
        seed: int,
        held_out: float,
        options: Mapping[str, Any],
    ) -> None:
        _check.one_of("family", family, ("light", "neural"), RankError)
        _check.instance_of("encoder", encoder, (str, Path, type(None)), "a folder, a name or None", RankError)
        _check.count("seed", seed, least=0)
        if not _check.is_number(held_out) or not 0 <= held_out < 1:
            raise RankError(f"held_out must be a share from 0 to below 1, was {_check.said(held_out)}")
        self.objective = objective
        self.seed = seed
        self.held_out = float(held_out)
        self.backend = _backend(family, encoder, options)
        self.calibration: Calibration | None = None
        self.manifest: Manifest | None = None

    def __repr__(self) -> str:
        state = (
            "not trained" if self.manifest is None else f"trained on {self.manifest.data.samples:,} samples"
        )
        return f"<{type(self).__name__} of the {self.backend.family} family, {state}>"

    def fit(
        self,
        prompts: Sequence[str],
        lengths: npt.ArrayLike,
        *,
        groups: Sequence[object] | npt.NDArray[Any] | None = None,
        note: str = "",
        progress: Progress | None = None,
    ) -> Self:
        """Train on prompts and the lengths of their answers.

        Parameters
        ----------
        prompts
            Texts, none of them empty. A prompt may be in several samples.
        lengths
            Of the answers, reasoning included, above 0. Tokens, or any other unit that grows with them.
        groups
            Names the group of each sample, such as the model that answered. Lengths are compared within a
            group only. None: all are one group.
        note
            Kept in the manifest: licences of the data, and whatever else is to be known.
        progress
            Called with the steps done and those of all.

        Returns
        -------
        Ranker
            This one.

        Raises
        ------
        RankError
            There are fewer than two samples, all lengths of each group are equal, or a sample is not usable;
            the message names its row.
        """
        texts = checked_prompts(prompts)
        values = checked_lengths(lengths, len(texts))
        names = checked_groups(groups, len(texts))
        _check.instance_of("note", note, str, "a string", RankError)
        checked_progress(progress)
        if len(texts) < 2:
            raise RankError(f"training needs at least 2 samples, was {len(texts)}")
        if not any(np.ptp(values[names == name]) > 0 for name in np.unique(names)):
            raise RankError(
                f"lengths must not all be equal, or nothing can be ranked; all were {values[0]:g}"
            )
        prompt_ids = np.unique(np.array([_fingerprint(text) for text in texts]), return_inverse=True)[1]
        held = self._held(prompt_ids)
        whole = self._training(texts, values, names, np.ones(len(texts), dtype=bool))
        quality: dict[str, Quality] = {}
        self.calibration = None
        if held.any():
            validation = self._training(texts, values, names, held)
            part = replace(self._training(texts, values, names, ~held), validation=validation)
            self.backend.fit(part, progress)
            self._judge(validation, prompt_ids[held], quality)
        if not held.any() or self.backend.family == "light":
            # What was held out is trained on too where that takes seconds.
            self.backend.fit(whole, progress)
        self.manifest = Manifest(
            paceline=VERSION,
            objective=self.objective.name,  # type: ignore[arg-type]
            objective_settings=asdict(self.objective),
            family=self.backend.family,  # type: ignore[arg-type]
            settings=self.backend.settings(),
            seed=self.seed,
            data=_data(texts, values, names, int(prompt_ids.max()) + 1),
            quality=quality,
            note=note,
        )
        return self

    def score(self, prompts: Sequence[str], *, progress: Progress | None = None) -> npt.NDArray[np.float64]:
        """Return a score for each prompt, higher for a longer answer.

        Parameters
        ----------
        prompts
            Texts, none of them empty.
        progress
            Called with the prompts done and those of all.

        Raises
        ------
        RankError
            The ranker was not trained, or a prompt is empty; the message names its row.
        """
        self._trained()
        texts = checked_prompts(prompts)
        checked_progress(progress)
        parts = []
        for start in range(0, len(texts), _SCORED_AT_ONCE):
            parts.append(self.backend.score(texts[start : start + _SCORED_AT_ONCE]))
            if progress is not None:
                progress(min(start + _SCORED_AT_ONCE, len(texts)), len(texts))
        return np.concatenate(parts) if parts else np.empty(0)

    def predict_tokens(self, prompts: Sequence[str], *, level: float = 0.5) -> npt.NDArray[np.float64]:
        """Return a quantile of the length that each prompt's answer is expected to have.

        Parameters
        ----------
        prompts
            Texts, none of them empty.
        level
            Of the quantile, from 0.05 to 0.95; 0.5 is the median.

        Raises
        ------
        RankError
            The ranker was not trained, or with too few prompts to calibrate it.
        """
        self._trained()
        if self.calibration is None:
            raise RankError(
                f"predicting tokens needs a ranker with at least {_LEAST_HELD_OUT} held-out prompts, this "
                f"has "
                "fewer; train it on more prompts, or use its scores"
            )
        return self.calibration.predict(self.score(prompts), level)

    @typed(RankError)
    def save(self, folder: str | Path) -> None:
        """Write a folder that `load` reads, in place of one that is there.

        Raises
        ------
        RankError
            The ranker was not trained, or what is there is not the folder of a ranker.
        OSError
            The folder cannot be written.
        """
        manifest = self._trained()
        target = Path(folder)
        if not target.name:
            raise RankError(f"folder must be named, such as 'ranker', was {str(folder)!r}")
        if target.exists() and not (
            target.is_dir() and ((target / "manifest.json").exists() or not any(target.iterdir()))
        ):
            raise RankError(
                f"{target}: must be new, empty, or the folder of a saved ranker, to be written to"
            )
        with new_directory(target) as draft:
            self.backend.save(draft)
            if self.calibration is not None:
                made = {"scores": self.calibration.scores, "tokens": self.calibration.tokens}
                write_tensors(draft / _CALIBRATION, made)
            (draft / "README.md").write_text(card(manifest), encoding="utf-8")
            write_manifest(draft, manifest)

    def _trained(self) -> Manifest:
        if self.manifest is None:
            raise RankError(
                f"this {type(self).__name__} was not trained: call fit(prompts, lengths) first, or load one"
            )
        return self.manifest

    def _held(self, prompt_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Choose the prompts to hold out, all samples of a prompt together."""
        prompts = int(prompt_ids.max()) + 1
        count = round(self.held_out * prompts)
        if count < _LEAST_HELD_OUT:
            return np.zeros(len(prompt_ids), dtype=bool)
        chosen = np.random.default_rng(self.seed).permutation(prompts)[:count]
        return np.isin(prompt_ids, chosen)

    def _training(
        self,
        texts: list[str],
        lengths: npt.NDArray[np.float64],
        groups: npt.NDArray[np.int64],
        rows: npt.NDArray[np.bool_],
    ) -> Training:
        return Training(
            prompts=[texts[row] for row in np.flatnonzero(rows)],
            lengths=lengths[rows],
            groups=groups[rows],
            objective=self.objective,
            seed=self.seed,
        )

    def _judge(self, held: Training, prompts: npt.NDArray[np.int64], quality: dict[str, Quality]) -> None:
        """Measure tau and calibrate on prompts that were held out."""
        scores = self.backend.score(held.prompts)
        self.calibration = Calibration.fit(scores, held.lengths)
        several = len(np.unique(held.groups)) > 1
        try:
            tau = tau_with_interval(
                scores,
                held.lengths,
                groups=held.groups if several else None,
                clusters=prompts if several else None,
                resamples=300,
                seed=self.seed,
            )
        except RankError:  # such as where all held-out lengths are equal
            return
        of = f"{len(np.unique(prompts)):,} held-out prompts"
        if self.backend.family == "neural":
            of += ", by which the epoch was chosen"
        quality["held_out"] = Quality(tau=tau.value, low=tau.low, high=tau.high, samples=tau.samples, of=of)


class PairwiseRanker(Ranker):
    """Ranks prompts by the length of their answers, trained on pairs with the margin ranking loss (PARS).

    Parameters
    ----------
    family
        ``"light"``: hashed n-grams and simple features, in numpy; trains in seconds. ``"neural"``: an
        encoder, with the extra ``paceline[rank]``.
    encoder
        Of the neural family: a local folder, or a name of the Hugging Face hub.
    delta
        Least relative difference of the lengths of a pair: 0.2, or 0.25 for reasoning models.
    partners
        Pairs a sample.
    margin
        The difference of scores that costs nothing.
    seed
        Of all that is drawn.
    held_out
        Share of the prompts that is held out, to measure tau and to calibrate.
    **options
        Of the family: see `paceline.rank.light.model.LightModel` and
        `paceline.rank.neural.model.NeuralModel`.

    Examples
    --------
    >>> ranker = PairwiseRanker()
    >>> prompts = ["Name a color.", "Write an essay on bees.", "Name a fruit.", "Write an essay on rain."]
    >>> ranker.fit(prompts, [2, 400, 3, 380]).score(["Write an essay on tea.", "Name a city."]).argmax()
    np.int64(0)

    Notes
    -----
    Source: Tao et al., "PARS: Low-Latency LLM Serving via Pairwise Learning-to-Rank" (ISC 2026), section
    III-A, and SPEAR-UIC/PARS (eff51953) for what it leaves open.
    """

    def __init__(
        self,
        *,
        family: Literal["light", "neural"] = "light",
        encoder: str | Path | None = None,
        delta: float = DELTA,
        partners: int = PARTNERS,
        margin: float = 1.0,
        seed: int = 0,
        held_out: float = 0.1,
        **options: Any,  # noqa: ANN401 - of the family
    ) -> None:
        objective = Pairwise(delta=delta, partners=partners, margin=margin)
        super().__init__(
            objective, family=family, encoder=encoder, seed=seed, held_out=held_out, options=options
        )


class ListwiseRanker(Ranker):
    """Ranks prompts by the length of their answers, trained on lists with ListMLE (vllm-ltr).

    Parameters
    ----------
    list_size
        Samples of a list.
    family, encoder, seed, held_out, **options
        As `PairwiseRanker`.
    """

    def __init__(
        self,
        *,
        family: Literal["light", "neural"] = "light",
        encoder: str | Path | None = None,
        list_size: int = 32,
        seed: int = 0,
        held_out: float = 0.1,
        **options: Any,  # noqa: ANN401 - of the family
    ) -> None:
        objective = Listwise(list_size=list_size)
        super().__init__(
            objective, family=family, encoder=encoder, seed=seed, held_out=held_out, options=options
        )


class PointwiseRanker(Ranker):
    """Ranks prompts by the length of their answers, trained on the logarithms of lengths with the L1 loss.

    Parameters
    ----------
    family, encoder, seed, held_out, **options
        As `PairwiseRanker`.
    """

    def __init__(
        self,
        *,
        family: Literal["light", "neural"] = "light",
        encoder: str | Path | None = None,
        seed: int = 0,
        held_out: float = 0.1,
        **options: Any,  # noqa: ANN401 - of the family
    ) -> None:
        super().__init__(
            Pointwise(), family=family, encoder=encoder, seed=seed, held_out=held_out, options=options
        )


@typed(RankError)
def load(folder: str | Path) -> Ranker:
    """Read a ranker that was saved.

    Parameters
    ----------
    folder
        What `Ranker.save` or ``paceline rank train`` wrote.

    Raises
    ------
    RankError
        It is no such folder, or one of its files is not as it was saved.
    """
    path = Path(folder)
    manifest = read_manifest(path)
    classes = {"pairwise": PairwiseRanker, "listwise": ListwiseRanker, "pointwise": PointwiseRanker}
    ranker: Ranker = object.__new__(classes[manifest.objective])
    try:
        ranker.objective = _OBJECTIVES[manifest.objective](**manifest.objective_settings)
        ranker.backend = _loaded(manifest, path)
    except (TypeError, KeyError) as error:
        raise RankError(f"{path}: has settings that this version does not know: {error}") from error
    ranker.seed, ranker.held_out, ranker.manifest, ranker.calibration = manifest.seed, 0.0, manifest, None
    if _CALIBRATION in manifest.files:
        made = read_tensors(path / _CALIBRATION)
        ranker.calibration = Calibration(made["scores"], made["tokens"])
    return ranker


def _backend(family: str, encoder: str | Path | None, options: Mapping[str, Any]) -> Backend:
    try:
        if family == "light":
            if encoder is not None:
                raise RankError(
                    f"encoder is of the neural family, and the light one has none; was {str(encoder)!r}"
                )
            return LightModel(**options)
        from paceline.rank.neural.model import NeuralModel

        return NeuralModel(encoder, **options)
    except TypeError as error:
        raise RankError(f"the {family} family does not have these options: {error}") from error


def _loaded(manifest: Manifest, folder: Path) -> Backend:
    if manifest.family == "light":
        return LightModel.load(folder, manifest.settings)
    from paceline.rank.neural.model import NeuralModel

    return NeuralModel.load(folder, manifest.settings)


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _data(
    texts: list[str], lengths: npt.NDArray[np.float64], groups: npt.NDArray[np.int64], prompts: int
) -> Data:
    digest = hashlib.sha256()
    encoder = msgspec.json.Encoder()
    for text, length, group in zip(texts, lengths.tolist(), groups.tolist(), strict=True):
        digest.update(encoder.encode((_fingerprint(text), length, group)))
    return Data(sha256=digest.hexdigest(), samples=len(texts), prompts=prompts, groups=len(np.unique(groups)))
