"""The workloads: lengths of prompts, reasoning and answers, and traces drawn from them.

The numbers, and how they were derived, are in ``workloads.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from paceline.errors import ConfigError
from paceline.synthesis import Lengths, Lognormal, Poisson, Quantiles, read_servegen
from paceline.synthesis.streams import Stream
from paceline.trace import Trace

__all__ = ["FILE", "Asked", "Chats", "Served", "chats", "lengths_of"]

FILE: Final = "servegen_deepseek-r1.tar.zst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chats:
    """A workload of requests that reason, then answer.

    Attributes
    ----------
    name
        As in ``workloads.toml``.
    title
        As in the paper.
    prompt_tokens, reasoning_tokens, answer_tokens
        Their lengths, drawn independently.
    """

    name: str
    title: str
    prompt_tokens: Lengths
    reasoning_tokens: Lengths
    answer_tokens: Lengths


def chats(name: str) -> Chats:
    """Return one of ``alpacaeval``, ``arena-hard`` and ``problem-solving``.

    Examples
    --------
    >>> chats("arena-hard").reasoning_tokens
    Lognormal(median=521.0, sigma=1.2435, low=1, high=16384)
    """
    entry = _tables()[name]
    return Chats(
        name=name,
        title=entry["title"],
        **{
            side: _lengths(side, entry[side])
            for side in ("prompt_tokens", "reasoning_tokens", "answer_tokens")
        },
    )


def lengths_of(workload: Chats, requests: int, seed: int) -> pl.DataFrame:
    """Draw prompts, reasoning and answers of requests; with the same seed, more requests begin with the same.

    Returns
    -------
    DataFrame
        ``prompt_tokens``, ``output_tokens`` (reasoning and answer) and ``reasoning_tokens``.
    """
    prompt, reasoning, answer = (
        lengths.tokens(Stream(seed, f"{workload.name} {side}").uniforms(requests))
        for side, lengths in (
            ("prompt", workload.prompt_tokens),
            ("reasoning", workload.reasoning_tokens),
            ("answer", workload.answer_tokens),
        )
    )
    return pl.DataFrame(
        {"prompt_tokens": prompt, "output_tokens": reasoning + answer, "reasoning_tokens": reasoning}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Traces of a workload: Poisson arrivals, as in the paper, at a rate of one a second.

    Parameters
    ----------
    workload
        What is asked.
    requests
        How many.
    half
        Another workload, by whose requests each request is replaced with probability one half, as section V-D
        of the paper replaces Arena-Hard's; or None.

    Examples
    --------
    >>> Asked(workload=chats("alpacaeval"), requests=1000).draw(1).at_rate(scale=10)
    <Trace 'alpacaeval': 1,000 requests over 103.7 s>
    """

    workload: Chats
    requests: int
    half: Chats | None = None

    def draw(self, seed: int) -> Trace:
        """Draw lengths and arrivals."""
        frame, name = lengths_of(self.workload, self.requests, seed), self.workload.name
        if self.half is not None:
            replaced = Stream(seed, f"{name} replaced").uniforms(self.requests) < 0.5
            other = lengths_of(self.half, self.requests, seed)
            frame = pl.DataFrame(
                {side: np.where(replaced, other[side], frame[side]) for side in frame.columns}
            )
            name = f"{name}, half {self.half.name}"
        arrival = Poisson().times(self.requests, 1.0, seed)
        return Trace(frame.with_columns(pl.Series("arrival", arrival)), name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Ten minutes of the production workload, at the rate at which it was served; the same for every seed."""

    trace: Trace

    @property
    def requests(self) -> int:
        """The number of requests."""
        return len(self.trace)

    @classmethod
    def load(cls, data: Path, seed: int) -> Served:
        """Draw the trace from a folder's file.

        Raises
        ------
        ConfigError
            If the folder holds no such file.
        """
        path = data / FILE
        if not path.is_file():
            raise ConfigError(
                f"{data}: must hold {FILE} (alibaba/ServeGen, data/reason/deepseek-r1), did not"
            )
        return cls(trace=read_servegen(path).trace(start_s=0, span_s=600, seed=seed))

    def draw(self, seed: int) -> Trace:
        """Return the trace."""
        return self.trace


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("workloads.toml").read_text(encoding="utf-8"))


def _lengths(side: str, entry: Mapping[str, Any]) -> Lengths:
    if "as" in entry:
        times = entry.get("times", 1.0)
        points = _tables()[entry["as"]][side]["quantiles"]
        return Quantiles(tuple((float(p), max(1, round(count * times))) for p, count in points))
    if "quantiles" in entry:
        return Quantiles(tuple((float(p), int(count)) for p, count in entry["quantiles"]))
    return Lognormal(**entry)
