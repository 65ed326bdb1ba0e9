"""Time the light ranker: training on 5,000 prompts, and scoring 100,000, on one core.

Usage: python benches/rank_speed.py [TRACES]
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

from paceline.rank import PairwiseRanker  # noqa: E402
from paceline.rank.examples import read_examples  # noqa: E402
from paceline.rank.shipped import shipped  # noqa: E402

SCORED = 100_000


def main() -> None:
    traces = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/traces")
    samples = read_examples([traces / "alpaca_5000.json.zst"])
    clocks = time.perf_counter(), time.process_time()
    PairwiseRanker().fit(samples.prompts, samples.lengths)
    _show(f"training on {len(samples):,} prompts", *clocks)
    # Each prompt differs from the others, as prompts do.
    prompts = [f"{samples.prompts[number % len(samples)]} {number}" for number in range(SCORED)]
    ranker = shipped()
    clocks = time.perf_counter(), time.process_time()
    ranker.score(prompts)
    _show(f"scoring {SCORED:,} prompts", *clocks)


def _show(what: str, wall: float, cpu: float) -> None:
    print(f"{what}: {time.perf_counter() - wall:.1f} s, {time.process_time() - cpu:.1f} s of one core")


if __name__ == "__main__":
    main()
