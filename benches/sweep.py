"""A sweep of 200 points of 20,000 requests against the sum of its replays divided by the cores.

Usage: python benches/sweep.py [--requests 20000] [--workers N] [--rounds 3]. The sum is of `paceline.replay`
alone, one after the other on one thread. The sweep also changes the rate of the trace, reduces each result to
its row, and writes a file for each point. Rounds alternate the two; on a busy machine compare the least of
each, and the processor time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import paceline
from paceline._cores import threads


def grid(requests: int) -> paceline.Grid:
    """Return a grid of five policies, eight rates and five sizes of batches, on one trace."""
    cluster = paceline.Cluster(2 * [paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    return paceline.Grid(
        trace=paceline.synthesize("azure-conv", requests=requests, seed=1),
        cluster=cluster,
        over={
            "rate": [2.0 * step for step in range(1, 9)],
            "policy": ["vllm", "sarathi", "vllm_v0", "las", "srpt"],
            "policy.scheduler.max_num_seqs": [32, 64, 128, 256, 512],
        },
        slo=paceline.SLO(ttft=1.0, tpot=0.05),
    )


def replays(over: paceline.Grid) -> tuple[float, float]:
    """Return the seconds and the processor seconds of all replays, one after the other."""
    wall = processor = 0.0
    (rows,) = over.traces.values()
    for point in over.points():
        trace = point.paced(rows)
        cluster, policy, _ = point.parts()
        begun, busy = time.perf_counter(), time.process_time()
        paceline.replay(trace, cluster, policy)
        wall += time.perf_counter() - begun
        processor += time.process_time() - busy
    return wall, processor


def swept(over: paceline.Grid, workers: int) -> tuple[float, float]:
    """Return the seconds and the processor seconds of the sweep."""
    with tempfile.TemporaryDirectory() as folder:
        begun, busy = time.perf_counter(), time.process_time()
        found = paceline.sweep(over, out=Path(folder), workers=workers)
        wall, processor = time.perf_counter() - begun, time.process_time() - busy
    assert found.failed.height == 0
    return wall, processor


def main() -> None:
    """Print both, and their ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=threads(None))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    over = grid(options.requests)
    print(f"{len(over)} points of {options.requests:,} requests, {options.workers} workers")
    alone, whole = [], []
    for _ in range(options.rounds):
        alone.append(replays(over))
        whole.append(swept(over, options.workers))
        share = alone[-1][0] / options.workers
        print(
            f"replays {alone[-1][0]:.2f} s in sum, {share:.2f} s a worker (processor {alone[-1][1]:.2f} s); "
            f"sweep {whole[-1][0]:.2f} s (processor {whole[-1][1]:.2f} s): {whole[-1][0] / share:.2f} times"
        )
    wall = min(of[0] for of in whole) / (min(of[0] for of in alone) / options.workers)
    processor = min(of[1] for of in whole) / min(of[1] for of in alone)
    print(f"least of {options.rounds} rounds: {wall:.2f} of the time, {processor:.2f} of the processor time")


if __name__ == "__main__":
    main()
