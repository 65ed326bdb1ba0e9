"""Time of one replay by the number of threads, behind a router that reads no state of instances.

    python benches/threads.py [INSTANCES ...]

Replays a million requests of `end_to_end.py`'s workload, 7.5 a second for each instance (64 instances if no
number is given), under a round robin on one thread and on each further number up to the cores. Runs
alternate; the best and the median of five are printed, in seconds, with the speed-up of the medians.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

from workloads import WORKLOAD

import paceline
from paceline._cores import ENVIRONMENT, threads

ROUNDS = 5


def main() -> None:
    """Print a row for each number of instances and threads."""
    cores = threads(None)
    print("instances   threads    best   median   speed-up")
    for instances in [int(word) for word in sys.argv[1:]] or [64]:
        trace = paceline.synthesize(WORKLOAD, requests=1_000_000, rate=7.5 * instances, seed=11)
        cluster = paceline.Cluster(instances * [paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")])
        policy = paceline.policies.vllm(routing="round_robin")
        took: dict[int, list[float]] = {count: [] for count in range(1, cores + 1)}
        for _ in range(ROUNDS):
            for count, seconds in took.items():
                os.environ[ENVIRONMENT] = str(count)
                began = time.perf_counter()
                paceline.replay(trace, cluster, policy)
                seconds.append(time.perf_counter() - began)
        first = statistics.median(took[1])
        for count, seconds in took.items():
            median = statistics.median(seconds)
            print(
                f"{instances:>9}   {count:>7}   {min(seconds):5.2f}   {median:6.2f}   {first / median:8.2f}"
            )


if __name__ == "__main__":
    main()
