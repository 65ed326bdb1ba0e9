"""The workloads: lengths of prompts, reasoning and answers, and traces drawn from them.

The numbers, and how they were come by, are in ``workloads.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import polars as pl

from paceline.synthesis import Lengths, Lognormal, Poisson, Quantiles
from paceline.synthesis.streams import Stream
from paceline.trace import Trace

__all__ = ["Chats", "chats", "drawn", "half_replaced", "lengths_of"]


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
    """Draw prompts, reasoning and answers of some requests; more of the same seed continue them.

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


def drawn(workload: Chats, *, requests: int, seed: int) -> Trace:
    """Draw a trace: Poisson arrivals, as in the paper, at a rate of one a second.

    Examples
    --------
    >>> drawn(chats("alpacaeval"), requests=1000, seed=1).at_rate(scale=10)
    <Trace 'alpacaeval': 1,000 requests over 103.7 s>
    """
    return _arriving(lengths_of(workload, requests, seed), workload.name, seed)


def half_replaced(workload: Chats, other: Chats, *, requests: int, seed: int) -> Trace:
    """Draw a trace in which every request is the other workload's with probability one half.

    As section V-D of the paper replaces half of Arena-Hard's requests.
    """
    replaced = Stream(seed, f"{workload.name} replaced").uniforms(requests) < 0.5
    frames = [lengths_of(each, requests, seed) for each in (workload, other)]
    frame = pl.DataFrame(
        {name: np.where(replaced, frames[1][name], frames[0][name]) for name in frames[0].columns}
    )
    return _arriving(frame, f"{workload.name}, half {other.name}", seed)


def _arriving(lengths: pl.DataFrame, name: str, seed: int) -> Trace:
    arrival = Poisson().times(lengths.height, 1.0, seed)
    return Trace(lengths.with_columns(pl.Series("arrival", arrival)), name=name)


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
