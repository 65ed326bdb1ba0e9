"""The light family: a linear model of hashed n-grams and simple features, in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from paceline import _check
from paceline.errors import RankError
from paceline.rank.backend import Progress, Training
from paceline.rank.light.features import VERSION, features
from paceline.rank.light.simple import NAMES
from paceline.rank.light.training import train
from paceline.rank.tensors import read_tensors, write_tensors

__all__ = ["LightModel"]

_FILE: Final = "weights.safetensors"


class LightModel:
    """A linear model of hashed n-grams and simple features.

    Parameters
    ----------
    bits
        N-grams are hashed to ``2 ** bits`` columns.
    penalty
        What half the sum of squared weights costs in training.
    steps
        Steps of training.
    """

    family: Final = "light"

    def __init__(self, *, bits: int = 18, penalty: float = 2e-4, steps: int = 200) -> None:
        _check.count("bits", bits, least=8, most=22)
        _check.positive("penalty", penalty)
        _check.count("steps", steps)
        self.bits, self.penalty, self.steps = bits, float(penalty), steps
        self.weights: npt.NDArray[np.float64] | None = None

    def settings(self) -> dict[str, Any]:
        """Return what a saved model is described by."""
        return {"bits": self.bits, "penalty": self.penalty, "steps": self.steps, "features": VERSION}

    def fit(self, training: Training, progress: Progress | None = None) -> None:
        """Train on the samples; the validation samples are not used."""
        rows = features(training.prompts, self.bits)
        examples = training.objective.examples(training.lengths, training.groups, training.seed)
        self.weights = train(
            rows, examples, bits=self.bits, penalty=self.penalty, steps=self.steps, progress=progress
        )
        # As they are saved, so that a model scores the same before and after.
        self.weights = self.weights.astype(np.float32).astype(np.float64)

    def scale(self, factor: float) -> None:
        """Multiply all scores by a factor above 0."""
        assert self.weights is not None, "Invariant: a model is scaled after it was trained or loaded"
        self.weights = (self.weights * factor).astype(np.float32).astype(np.float64)

    def score(self, prompts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Score a batch of prompts."""
        assert self.weights is not None, "Invariant: a ranker scores after it was trained or loaded"
        return features(prompts, self.bits).scores(self.weights)

    def save(self, folder: Path) -> None:
        """Write the weights."""
        assert self.weights is not None, "Invariant: a ranker is saved after it was trained or loaded"
        write_tensors(folder / _FILE, {"weights": self.weights.astype(np.float32)})

    @classmethod
    def load(cls, folder: Path, settings: Mapping[str, Any]) -> Self:
        """Read the weights of a folder whose files were checked."""
        version = settings.get("features")
        if version != VERSION:
            raise RankError(
                f"{folder}: features of the light model must be of version {VERSION}, was "
                f"{_check.said(version)}; "
                "train it again with this version of Paceline"
            )
        model = cls(bits=settings["bits"], penalty=settings["penalty"], steps=settings["steps"])
        weights = read_tensors(folder / _FILE).get("weights")
        size = (1 << model.bits) + len(NAMES)
        if weights is None or weights.shape != (size,) or not np.isfinite(weights).all():
            raise RankError(f"{folder / _FILE}: must hold {size:,} finite weights")
        model.weights = weights.astype(np.float64)
        return model
