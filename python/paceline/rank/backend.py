"""What a family of rankers provides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from paceline.rank.objectives import Objective

__all__ = ["Backend", "Progress", "Training"]

Progress: TypeAlias = Callable[[int, int], None]
"""Called with what is done and what there is in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Samples to train on.

    Attributes
    ----------
    prompts, lengths, groups
        One of each a sample; only lengths of one group are compared.
    objective
        What is trained for.
    seed
        Of all that is drawn.
    validation
        Samples to choose among epochs by; none if every sample is trained on.
    """

    prompts: Sequence[str]
    lengths: npt.NDArray[np.float64]
    groups: npt.NDArray[np.int64]
    objective: Objective
    seed: int
    validation: Training | None = field(default=None)


class Backend(Protocol):
    """A family's model."""

    @property
    def family(self) -> str:
        """Its name in manifests."""
        ...

    def settings(self) -> dict[str, Any]:
        """Return what a saved model is described by."""
        ...

    def fit(self, training: Training, progress: Progress | None = None) -> None:
        """Train."""
        ...

    def score(self, prompts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Score a batch of prompts, higher for longer."""
        ...

    def save(self, folder: Path) -> None:
        """Write the model's files into a folder."""
        ...
