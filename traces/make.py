"""Make the traces of this folder again, byte for byte.

Run from the root of the repository: ``python traces/make.py`` writes them where
they are, ``python traces/make.py DIR`` elsewhere. A test holds the two equal.
"""

from __future__ import annotations

import sys
from pathlib import Path

from paceline.synthesis import Bursts, Lognormal, Workload, synthesize
from paceline.trace import Trace

__all__ = ["make", "recipes"]


def recipes() -> dict[str, Trace]:
    """Draw each trace, by its file's name."""
    bursts = Workload(
        name="bursts",
        arrivals=Bursts(size=50, spread_s=2.0),
        prompt_tokens=Lognormal.from_mean(1000, sigma=0.8, high=16_384),
        output_tokens=Lognormal.from_mean(240, sigma=0.6, high=2_048),
    )
    return {
        "azure-conv-1000.csv": synthesize("azure-conv", requests=1_000, seed=1),
        "azure-code-500.csv": synthesize("azure-code", requests=500, seed=2),
        "arxiv-summarization-300.csv": synthesize("arxiv-summarization", requests=300, rate=1.3, seed=3),
        "bursts-500.jsonl": synthesize(bursts, requests=500, rate=4.0, seed=4),
    }


def make(folder: Path) -> None:
    """Write them all into a folder."""
    for name, trace in recipes().items():
        trace.write(folder / name)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
