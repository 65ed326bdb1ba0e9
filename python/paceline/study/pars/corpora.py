"""Prompts with the lengths of answers, and lengths without prompts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline.rank.examples import read_examples

__all__ = ["EVALUATED", "MODELS", "Corpus", "alpaca", "answers", "reasoning"]

TOKENS_A_WORD: Final = 4 / 3
"""Of English text; assumed for Alpaca, whose lengths are words."""

MODELS: Final = {
    "gpt4": "gpt4_1106_preview",
    "llama": "Meta-Llama-3.1-8B-Instruct-Turbo",
    "qwen": "Qwen2-72B-Instruct",
    "vicuna": "vicuna-13b-v1.5",
}
"""The models that answered AlpacaEval's prompts, by the study's names."""

EVALUATED: Final = ("alpaca", *MODELS)
_LONGEST: Final = 8192


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Requests with the lengths of their answers.

    Attributes
    ----------
    name, title
        In the study, and in its tables.
    prompts
        Texts; empty if only lengths are known.
    lengths
        Of the answers, in tokens or words; they are what a ranker is trained on.
    prompt_tokens, output_tokens
        What a replay is served.
    """

    name: str
    title: str
    lengths: npt.NDArray[np.float64]
    prompt_tokens: npt.NDArray[np.int64]
    output_tokens: npt.NDArray[np.int64]
    prompts: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lengths)


def alpaca(data: Path, most: int | None = None) -> Corpus:
    """Return Stanford Alpaca's first entries; answers without words are left out."""
    examples = read_examples([data / "alpaca_5000.json.zst"])
    prompts, words = examples.prompts[:most], examples.lengths[:most]
    spoken = np.array([len(prompt.split()) for prompt in prompts])
    return Corpus("alpaca", "Alpaca, in words", words, _tokens(spoken), _tokens(words), prompts)


def answers(data: Path, name: str, most: int | None = None) -> Corpus:
    """Return AlpacaEval's first prompts with the lengths of a model's answers."""
    prompts = pl.read_parquet(data / "alpacaeval_prompts.parquet")
    lengths = pl.read_parquet(data / "alpacaeval_output_lengths.parquet").filter(
        pl.col("model").str.starts_with(MODELS[name])
    )
    both = prompts.join(lengths, on="prompt_id", maintain_order="left")[:most]
    tokens = both.get_column("output_tokens").to_numpy().astype(np.int64)
    return Corpus(
        name,
        f"AlpacaEval, {MODELS[name]}",
        tokens.astype(np.float64),
        both.get_column("prompt_tokens").to_numpy().astype(np.int64),
        tokens,
        both.get_column("prompt").to_list(),
    )


@cache
def reasoning(data: Path) -> Corpus:
    """Return the lengths of DeepSeek-R1 in production (ServeGen): reasoning and answer, up to 8,192."""
    frame = pl.read_csv(data / "derived_servegen_r1_10min.csv.zst")
    output = (
        (frame["reasoning_tokens"] + frame["answer_tokens"]).clip(1, _LONGEST).to_numpy().astype(np.int64)
    )
    prompt = frame["prompt_tokens"].clip(1, _LONGEST).to_numpy().astype(np.int64)
    return Corpus("r1", "DeepSeek-R1's lengths (ServeGen)", output.astype(np.float64), prompt, output)


def _tokens(words: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return np.maximum(np.rint(words * TOKENS_A_WORD), 1).astype(np.int64)
