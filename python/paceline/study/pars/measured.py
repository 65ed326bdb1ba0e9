"""What the neural rankers reached, kept in ``neural.toml``: training them takes PyTorch, and minutes each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

__all__ = ["COMMAND", "FILE", "Measured", "measured"]

COMMAND: Final = "python -m paceline.study.pars.neural ../shared/traces --encoder FOLDER"
"""Writes the file."""

FILE: Final = "neural.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Kendall's tau-b of one ranker on the held-out prompts.

    Attributes
    ----------
    name
        Of the ranker in this file, such as ``"pairwise"``.
    objective, encoder, pooling
        What was trained; random weights are named with the encoder.
    split
        Which prompts were held out: ``"last"``, or the seed that drew them.
    seed, epochs
        Of the training.
    trained_on, samples
        Prompts that were trained on, and held out.
    tau, low, high
        With its 95% bootstrap interval.
    """

    name: str
    objective: str
    encoder: str
    pooling: str
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
    """Return what ``neural.toml`` has."""
    text = files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return tuple(Measured(**entry) for entry in tomllib.loads(text)["measured"])
