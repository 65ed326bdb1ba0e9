"""Acceptance lengths that were measured, by model, method and number of drafts."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import ConfigError
from paceline.speculation.acceptance import AcceptanceLength

__all__ = ["golden_length", "golden_names"]

_INFERENCEX = "golden_al_distribution of SemiAnalysisAI/InferenceX, SPEED-Bench coding at temperature 1.0"
_GOLDEN: dict[str, tuple[dict[int, float], str]] = {
    "minimax-m3-eagle3-thinking": (
        {1: 1.78, 2: 2.38, 3: 2.83, 4: 3.11, 5: 3.35, 6: 3.45, 7: 3.53, 8: 3.74},
        f"minimaxm3_eagle3.yaml in {_INFERENCEX}, thinking on",
    ),
    "minimax-m3-eagle3": (
        {1: 1.84, 2: 2.52, 3: 2.93, 4: 3.41, 5: 3.59, 6: 3.57, 7: 3.85, 8: 4.06},
        f"minimaxm3_eagle3.yaml in {_INFERENCEX}, thinking off",
    ),
    "glm-5.2-mtp-thinking": ({3: 2.99}, f"pull request 2460 of InferenceX: {_INFERENCEX}, FP8, thinking on"),
    "qwen3.8-27b-mtp": ({7: 3.67}, f"qwen3.8_mtp.yaml in {_INFERENCEX}, INT4 on Arc"),
    "llama-3.1-8b-eagle3": ({7: 3.53}, "issue 26191 of vLLM: MT-bench at temperature 0"),
}


def golden_names() -> tuple[str, ...]:
    """Return the names of the tables.

    Examples
    --------
    >>> "minimax-m3-eagle3" in golden_names()
    True
    """
    return tuple(_GOLDEN)


@typed()
def golden_length(name: str, tokens: int) -> AcceptanceLength:
    """Return the acceptance length that was measured with so many drafts.

    Parameters
    ----------
    name
        One of :func:`golden_names`.
    tokens
        Drafts a step, for which there must be a measurement.

    Raises
    ------
    ConfigError
        If there is no such table, or no measurement in it.

    Examples
    --------
    >>> golden_length("minimax-m3-eagle3", 3)
    AcceptanceLength(length=2.93)
    """
    if name not in _GOLDEN:
        raise ConfigError(f"name must be one of {', '.join(_GOLDEN)}, was {name!r}")
    lengths, source = _GOLDEN[name]
    if tokens not in lengths:
        known = ", ".join(map(str, lengths))
        raise ConfigError(
            f"tokens of {name} must be one of {known}, as were measured ({source}), was {tokens}"
        )
    return AcceptanceLength(lengths[tokens])
