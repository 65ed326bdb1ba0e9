"""What sampling costs: the demo's million requests with and without a timeline, alternating.

Prints processor seconds of the replay: `python benches/over_time.py [requests] [rounds]`.
"""

from __future__ import annotations

import statistics
import sys
import time

import paceline

REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5


def main() -> None:
    trace = paceline.synthesize("azure-conv", requests=REQUESTS, rate=170.0, seed=11)
    cluster = paceline.Cluster(8 * [paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    seconds: dict[str, list[float]] = {"plain": [], "sample=1000": []}
    for _ in range(ROUNDS):
        for name, sample in (("plain", None), ("sample=1000", 1000)):
            started = time.process_time()
            result = paceline.replay(trace, cluster, sample=sample)
            seconds[name].append(time.process_time() - started)
    plain, sampled = (statistics.median(values) for values in seconds.values())
    for name, values in seconds.items():
        print(f"{name:12} median {statistics.median(values):.3f} s, least {min(values):.3f} s")
    print(f"sampled over plain: {sampled / plain:.3f} (median of {ROUNDS}), {len(result.timeline):,} rows")


if __name__ == "__main__":
    main()
