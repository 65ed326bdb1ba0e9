"""What the neural rankers reached, kept in ``neural.toml``: training them takes PyTorch, and minutes each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

__all__ = ["COMMAND", "FILE", "SAME", "Measured", "measured", "validated"]

COMMAND: Final = "python -m paceline.study.pars.neural ../shared/traces --encoder FOLDER"
"""Writes the file."""

FILE: Final = "neural.toml"

SAME: Final = ("name", "encoders", "light_share", "split", "seed", "epochs", "trained_on")
"""What tells figures apart: a figure takes the place of one that has all of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Kendall's tau-b of one ranker on prompts that it has not seen.

    Attributes
    ----------
    name
        Of the ranker in this file, such as ``"pairwise"``.
    objective, encoder, pooling
        What was trained; random weights are named with the encoder.
    encoders
        Trainings of the encoder whose scores were averaged.
    light_share
        Share of the light family's scores in the scores.
    split
        Which prompts were held out: ``"last"``, or the seed that drew them.
    seed, epochs
        Of the training.
    trained_on, samples
        Prompts that were trained on, and judged on.
    tau, low, high
        With its 95% bootstrap interval.
    """

    name: str
    objective: str
    encoder: str
    pooling: str
    encoders: int
    light_share: float
    split: str
    seed: int
    epochs: int
    trained_on: int
    samples: int
    tau: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.tau:.3f} ({self.low:.3f} to {self.high:.3f}, n = {self.samples:,})"


def measured() -> tuple[Measured, ...]:
    """Return the figures on held-out prompts."""
    return _read("measured")


def validated() -> tuple[Measured, ...]:
    """Return the figures that settings were chosen by: on a part of the prompts that are not held out."""
    return _read("validated")


def _read(among: str) -> tuple[Measured, ...]:
    text = files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return tuple(Measured(**entry) for entry in tomllib.loads(text)[among])
