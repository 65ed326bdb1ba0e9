"""The neural family: encoders with a scalar head each, and a share of the light family's scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from paceline import _check
from paceline.errors import RankError
from paceline.rank.backend import Progress, Training
from paceline.rank.light.model import LightModel
from paceline.rank.neural.batches import Within
from paceline.rank.neural.encoder import Encoder, Pooling, Precision
from paceline.rank.neural.libraries import torch_module
from paceline.rank.neural.training import Schedule, train

__all__ = ["NeuralModel"]

_LIGHT: Final = "light"

# Standard deviations of scores are taken over this many training prompts.
_SPREAD_OVER: Final = 500


class NeuralModel:
    """Encoders with a scalar head each, and a share of the light family's scores.

    Parameters
    ----------
    encoder
        A local folder, or a name of the Hugging Face hub. Only safetensors are read.
    epochs, batch, rate, partners_within
        How it is trained: see `paceline.rank.neural.training.Schedule`. The paper's are five epochs of
        batches of 128 pairs at 2e-5, with partners among all samples.
    pooling
        ``"pooler"``, ``"mean"``, ``"last"``, or ``"auto"``, which fits the encoder.
    max_tokens
        Tokens of a prompt that count, from its start.
    encoders
        Trainings of the encoder, each with its own seed, whose scores are averaged: n take n times as long to
        train and to score.
    light_share
        Share of a light model's scores, which is trained on the same samples, in the scores; both have the
        same standard deviation. The two families err on different prompts. 0: the encoder alone.
    precision
        ``"float32"``, ``"bfloat16"``, or ``"auto"``: of the matrix products in training, bfloat16 if the
        processor multiplies it, in about half the time.
    download
        Whether an encoder that is not on this machine is fetched.
    """

    family: Final = "neural"

    def __init__(
        self,
        encoder: str | Path | None,
        *,
        epochs: int = Schedule().epochs,
        batch: int = Schedule().batch,
        rate: float = Schedule().rate,
        partners_within: Within = "batch",
        pooling: Pooling = "auto",
        max_tokens: int = 128,
        encoders: int = 1,
        light_share: float = 0.1,
        precision: Precision = "auto",
        download: bool = False,
    ) -> None:
        if encoder is None:
            raise RankError("encoder must be a local folder or a name of the Hugging Face hub, was None")
        _check.one_of("pooling", pooling, ("auto", "pooler", "mean", "last"), RankError)
        _check.one_of("precision", precision, ("auto", "float32", "bfloat16"), RankError)
        _check.count("max_tokens", max_tokens, least=4)
        _check.count("encoders", encoders, most=100)
        if not _check.is_number(light_share) or not 0 <= light_share < 1:
            raise RankError(f"light_share must be a share from 0 to below 1, was {_check.said(light_share)}")
        self.name = str(encoder)
        self.schedule = Schedule(epochs=epochs, batch=batch, rate=rate, partners_within=partners_within)
        self.pooling: Pooling = pooling
        self.max_tokens = max_tokens
        self.encoders = encoders
        self.light_share = float(light_share)
        self.precision: Precision = precision
        self.download = download
        self.accuracies: list[float] = []
        self._encoders: list[Encoder] = []
        self._light: LightModel | None = None

    def settings(self) -> dict[str, Any]:
        """Return what a saved model is described by; a folder is named without its path."""
        return {
            "encoder": Path(self.name).name if Path(self.name).is_dir() else self.name,
            "pooling": self._encoders[0].pooling if self._encoders else self.pooling,
            "max_tokens": self.max_tokens,
            "encoders": self.encoders,
            "light_share": self.light_share,
            "light": self._light.settings() if self._light is not None else None,
            "precision": self._encoders[0].precision if self._encoders else self.precision,
            "validation_pair_accuracy": self.accuracies,
            **asdict(self.schedule),
        }

    def fit(self, training: Training, progress: Progress | None = None) -> None:
        """Train from the encoder as it was published; a second fit starts anew."""
        self._encoders, self.accuracies = [], []
        for number in range(self.encoders):
            part = replace(training, seed=training.seed + number)
            torch_module().manual_seed(part.seed)
            encoder = Encoder(
                self.name,
                pooling=self.pooling,
                max_tokens=self.max_tokens,
                download=self.download,
                precision=self.precision,
            )
            self.accuracies += train(encoder, part, self.schedule, self._part_of(progress, number))
            self._encoders.append(encoder)
        self._light = self._trained_light(training) if self.light_share else None

    def score(self, prompts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Score a batch of prompts."""
        scores = self._encoded(prompts)
        if self._light is None or self.light_share == 0:
            return scores
        return (1 - self.light_share) * scores + self.light_share * self._light.score(prompts)

    def save(self, folder: Path) -> None:
        """Write the encoders, their tokenizer and heads, and the light model."""
        assert self._encoders, "Invariant: a ranker is saved after it was trained or loaded"
        for number, encoder in enumerate(self._encoders):
            part = _part(folder, number)
            part.mkdir(exist_ok=True)
            encoder.save(part)
        if self._light is not None:
            (folder / _LIGHT).mkdir()
            self._light.save(folder / _LIGHT)

    @classmethod
    def load(cls, folder: Path, settings: Mapping[str, Any]) -> Self:
        """Read the files of a folder that were checked."""
        names = ("epochs", "batch", "rate", "partners_within", "pooling", "max_tokens", "precision")
        # Models that were saved before there were these have one encoder alone.
        share, encoders = settings.get("light_share", 0.0), settings.get("encoders", 1)
        model = cls(
            settings["encoder"],
            encoders=encoders,
            light_share=share,
            **{name: settings[name] for name in names},
        )
        model.accuracies = list(settings["validation_pair_accuracy"])
        for number in range(encoders):
            part = _part(folder, number)
            encoder = Encoder.load(part, pooling=model.pooling, max_tokens=model.max_tokens)
            encoder.precision = model.precision
            model._encoders.append(encoder)
        light = settings.get("light")
        model._light = LightModel.load(folder / _LIGHT, light) if light is not None else None
        return model

    def _encoded(self, prompts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the mean of the encoders' scores."""
        assert self._encoders, "Invariant: a ranker scores after it was trained or loaded"
        tokens = self._encoders[0].tokens(prompts)
        return np.asarray(np.mean([encoder.score(tokens) for encoder in self._encoders], axis=0))

    def _trained_light(self, training: Training) -> LightModel | None:
        """Train a light model, and scale its scores to the spread of the encoders'."""
        light = LightModel()
        light.fit(training)
        some = training.prompts[:_SPREAD_OVER]
        apart = float(np.std(light.score(some)))
        if apart == 0:
            return None
        light.scale(float(np.std(self._encoded(some))) / apart)
        return light

    def _part_of(self, progress: Progress | None, number: int) -> Progress | None:
        """Return what reports one training's steps among those of all."""
        if progress is None:
            return None
        return lambda done, total: progress(number * total + done, self.encoders * total)


def _part(folder: Path, number: int) -> Path:
    """Return the folder of an encoder: the first one's is the model's."""
    return folder if number == 0 else folder / f"encoder-{number + 1}"
