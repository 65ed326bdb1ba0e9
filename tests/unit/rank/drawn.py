"""Prompts drawn by a rule: the answer's length follows the first words, with noise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

STARTS = {
    "Name a": 4.0,
    "Is it true that there is a": 9.0,
    "List five facts about a": 60.0,
    "Explain what makes a": 140.0,
    "Write a story about a": 300.0,
}
NOUNS = [
    "river",
    "lamp",
    "garden",
    "train",
    "mirror",
    "window",
    "cloud",
    "bridge",
    "letter",
    "stone",
    "clock",
]


def drawn(samples: int, seed: int = 0, noise: float = 0.3) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Return prompts and lengths; the logarithm of a length has normal noise."""
    rng = np.random.default_rng(seed)
    starts, prompts, means = list(STARTS), [], []
    for kind, one, other in rng.integers((len(starts), len(NOUNS), len(NOUNS)), size=(samples, 3)).tolist():
        prompts.append(f"{starts[kind]} {NOUNS[one]} and a {NOUNS[other]}.")
        means.append(STARTS[starts[kind]])
    return prompts, np.ceil(np.array(means) * np.exp(noise * rng.standard_normal(samples)))
