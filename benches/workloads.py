"""The workloads of the benchmarks, by what old commits have, too, so that these replay the same requests."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import paceline
from paceline.synthesis import Lognormal, Workload

ROOT = Path(__file__).resolve().parent.parent
TRACES = ROOT.parent / "shared" / "traces"

# The workload: lognormal lengths, mean about 1,000 in and 240 out, Poisson arrivals.
WORKLOAD = Workload(
    prompt_tokens=Lognormal.from_mean(1000, sigma=0.8, high=16_384),
    output_tokens=Lognormal.from_mean(240, sigma=0.6, high=2_048),
)


def reasoning(requests: int, rate: float) -> tuple[paceline.Trace, paceline.Cluster]:
    """Return a trace with reasoning tokens, and eight linked instances."""
    draw = np.random.default_rng(5)

    def lognormal(mean: float, sigma: float, most: int) -> NDArray[np.int64]:
        lengths = draw.lognormal(math.log(mean) - sigma**2 / 2, sigma, requests)
        return np.clip(lengths, 1, most).astype(np.int64)

    prompt, reasoning, answer = (
        lognormal(100, 0.8, 4_000),
        lognormal(800, 1.0, 12_000),
        lognormal(600, 0.6, 4_000),
    )
    trace = paceline.Trace.from_columns(
        arrival=np.cumsum(draw.exponential(1 / rate, requests)),
        prompt_tokens=prompt,
        output_tokens=reasoning + answer,
        reasoning_tokens=reasoning,
    )
    instance = paceline.Instance(model="deepseek-r1-distill-qwen-32b", gpu="h100-96gb", max_model_len="auto")
    return trace, paceline.Cluster(8 * [instance], links=paceline.Links(gbps=100))
