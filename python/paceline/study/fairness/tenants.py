"""Three tenants of one instance: a steady one, one that sends too much, and one that comes in bursts."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline.deployment import Cluster, Instance
from paceline.trace import Trace

__all__ = ["BLOCK_TOKENS", "CLUSTER", "SPAN_S", "drawn"]

CLUSTER: Final = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")])

SPAN_S: Final = 300.0
"""Seconds of arrivals."""

BLOCK_TOKENS: Final = 16

_BURST_S: Final = 60.0
"""The bursts last so long, and so do the pauses between them."""

#: Requests a second, the medians of prompt and output, their spread, and blocks of a prompt that all share.
_TENANTS: Final = {
    "steady": (4.0, 600.0, 200.0, 0.6, 16),
    "greedy": (12.0, 2_000.0, 400.0, 0.6, 64),
    "bursty": (28.0, 800.0, 250.0, 0.6, 32),
}


def drawn(seed: int, share: float = 1.0) -> Trace:
    """Draw the requests of a seed; ``share``: of the time that is drawn in full."""
    span = SPAN_S * share
    parts = [_tenant(name, at, span, seed) for at, name in enumerate(_TENANTS)]
    frame = pl.concat(parts).sort("arrival", maintain_order=True)
    return Trace(frame, name="three tenants", prefix_block_tokens=BLOCK_TOKENS)


def _tenant(name: str, at: int, span: float, seed: int) -> pl.DataFrame:
    rate, prompt, output, spread, shared = _TENANTS[name]
    rng = np.random.default_rng([1182, at, seed])
    count = rng.poisson(rate * span)
    arrival = np.sort(rng.uniform(0.0, span, count))
    if name == "bursty":
        arrival = arrival[(arrival // _BURST_S) % 2 == 0]
    lengths = [_lognormal(rng, median, spread, len(arrival)) for median in (prompt, output)]
    ids = list(range(at * 1_000, at * 1_000 + shared))
    prompts = np.maximum(lengths[0], BLOCK_TOKENS)
    return pl.DataFrame(
        {
            "arrival": arrival,
            "prompt_tokens": prompts,
            "output_tokens": lengths[1],
            "tenant": [name] * len(arrival),
            "prefix": [ids[: length // BLOCK_TOKENS] for length in prompts.tolist()],
        }
    )


def _lognormal(rng: np.random.Generator, median: float, spread: float, count: int) -> npt.NDArray[np.int64]:
    lengths = np.exp(np.log(median) + spread * rng.standard_normal(count))
    whole: npt.NDArray[np.int64] = np.clip(np.rint(lengths), 1, 16_000).astype(np.int64)
    return whole
