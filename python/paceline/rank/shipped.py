"""The light ranker that comes with Paceline."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from paceline.rank.ranker import Ranker, load

__all__ = ["FOLDER", "shipped"]

FOLDER: Final = Path(__file__).with_name("shipped_light")
"""Its folder; the model card in it says what it was made from."""


def shipped() -> Ranker:
    """Return the light ranker that comes with Paceline.

    It was trained on prompts of Stanford Alpaca and AlpacaEval with the lengths of several models' answers,
    for prompts and models that are like them. The model card has its Kendall's tau-b on held-out prompts and
    models.

    Examples
    --------
    >>> scores = shipped().score(["Is 7 prime? Answer yes or no.", "Write a story about a lighthouse."])
    >>> bool(scores[0] < scores[1])
    True
    """
    return load(FOLDER)
