"""The four traces of the paper: from a folder of data, or drawn to their figures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from paceline.objectives import SLO
from paceline.study.arrow.paper import PAPER
from paceline.trace import Trace, read_trace

__all__ = ["WORKLOADS", "Load", "load", "minutes", "per_minute"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """Lengths and arrivals of a drawn trace: means, coefficients of variation, and the span in seconds."""

    title: str
    prompt: tuple[float, float]
    output: tuple[float, float]
    minute: float
    span_s: float
    file: str | None = None
    until_s: float | None = None


# Means and coefficients of variation of prompts and outputs: of the files themselves, and for BurstGPT of the
# 383 requests that did not fail in the first 400 rows of BurstGPT_1. `minute` is the variation of the input
# tokens of a minute: Section 3.1 of the paper, for the conversation the file's.
WORKLOADS: Final = {
    "code": _Drawn(
        title="Azure code",
        prompt=(2047.8, 0.964),
        output=(27.9, 2.147),
        minute=0.80,
        span_s=3436.0,
        file="azure2023_code.csv.zst",
    ),
    "conversation": _Drawn(
        title="Azure conversation",
        prompt=(1154.7, 0.96),
        output=(211.1, 0.771),
        minute=0.35,
        span_s=3502.0,
        file="azure2023_conv.csv.zst",
    ),
    "burstgpt": _Drawn(
        title="BurstGPT-like, ours", prompt=(543.6, 1.013), output=(288.8, 1.029), minute=1.11, span_s=3600.0
    ),
    "mooncake": _Drawn(
        title="Mooncake clip",
        prompt=(14002.1, 1.324),
        output=(353.8, 0.711),
        minute=0.16,
        span_s=600.0,
        file="mooncake_conversation.jsonl.zst",
        until_s=600.0005,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """A trace, its objectives, and whether it is real."""

    name: str
    title: str
    trace: Trace
    slo: SLO
    real: bool


@cache
def load(name: str, data: Path | None, requests: int | None = None, draw: int = 0) -> Load:
    """Return a workload: the file's if the folder has it, else drawn; the first so many requests.

    Another number gives another draw of the same distributions.
    """
    drawn = WORKLOADS[name]
    stated = PAPER.table("table-1", name)
    path = None if data is None or drawn.file is None else data / drawn.file
    real = path is not None and path.is_file()
    if path is not None and real:
        trace = read_trace(path)
        if drawn.until_s is not None:
            trace = trace.window(0.0, drawn.until_s)
    else:
        trace = _draw(name, drawn, int(stated["requests"].number), draw)
    if requests is not None:
        arrivals = trace.frame.get_column("arrival")
        trace = trace.window(float(arrivals[0]), float(arrivals[min(requests, len(trace) - 1)]))
    slo = SLO(ttft=stated["ttft"].number, tpot=stated["tpot"].number)
    return Load(name=name, title=drawn.title, trace=trace, slo=slo, real=real)


def per_minute(trace: Trace) -> float:
    """Return the coefficient of variation of the input tokens of a minute."""
    tokens = minutes(trace)
    return float(tokens.std() / tokens.mean())


def minutes(trace: Trace) -> npt.NDArray[np.float64]:
    """Return the input tokens of each whole minute that has requests; of a trace of less, all."""
    arrivals = trace.frame.get_column("arrival").to_numpy()
    since = arrivals - arrivals[0]
    tokens = np.bincount(
        (since // 60).astype(int), weights=trace.frame.get_column("prompt_tokens").to_numpy()
    )
    whole: npt.NDArray[np.float64] = np.asarray(tokens, dtype=np.float64)[: max(int(since[-1] // 60), 1)]
    return whole[whole > 0]


def _draw(name: str, drawn: _Drawn, requests: int, number: int) -> Trace:
    """Draw lognormal lengths, and Poisson arrivals with a Gamma-distributed rate in each minute."""
    draw = np.random.default_rng([2505, 11916, list(WORKLOADS).index(name), *([number] if number else [])])
    minutes = math.ceil(drawn.span_s / 60)
    # Requests and their lengths vary by themselves: the rate has the rest of the variance.
    own = (1 + drawn.prompt[1] ** 2) * minutes / requests
    variance = max(drawn.minute**2 - own, 1e-6)
    weights = draw.gamma(1 / variance, size=minutes)
    # As many seconds of work from each minute: positions on the cumulative rate.
    ends = np.concatenate(([0.0], np.cumsum(weights)))
    at = np.sort(draw.uniform(0, ends[-1], requests))
    arrivals = np.interp(at, ends, np.linspace(0, drawn.span_s, minutes + 1))

    def lengths(mean: float, variation: float) -> list[int]:
        sigma2 = math.log(1 + variation**2)
        values = draw.lognormal(math.log(mean) - sigma2 / 2, math.sqrt(sigma2), requests)
        return [int(value) for value in np.clip(np.rint(values), 1, 120_000)]

    return Trace.from_columns(
        name=f"{name}, drawn",
        arrival=arrivals - arrivals[0],
        prompt_tokens=lengths(*drawn.prompt),
        output_tokens=lengths(*drawn.output),
    )
