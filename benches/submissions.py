"""Submissions a second to a simulation that is driven from outside, in batches.

    python benches/submissions.py [--requests 1000000] [--batch 10000]

Submits a trace in batches, runs to the first arrival of the next batch, and takes the events; prints the
requests a second of `submit` alone and of the whole, and the time of the replay of the same trace.
"""

from __future__ import annotations

import argparse
import time

from paceline import Cluster, Instance, Simulation, replay, synthesize


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=10_000)
    given = parser.parse_args()
    trace = synthesize("azure-conv", requests=given.requests, seed=1, rate=400.0)
    cluster = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")] * 64)
    began = time.perf_counter()
    expected = replay(trace, cluster)
    replayed = time.perf_counter() - began
    frame, submitting = trace.frame, 0.0
    began = time.perf_counter()
    simulation = Simulation(cluster)
    for start in range(0, frame.height, given.batch):
        at = time.perf_counter()
        simulation.submit(frame[start : start + given.batch])
        submitting += time.perf_counter() - at
        if start + given.batch < frame.height:
            simulation.run_until(frame["arrival"][start + given.batch])
        simulation.events_frame()
    result = simulation.result()
    whole = time.perf_counter() - began
    assert result.requests.equals(expected.requests), "it must be the replay of what was submitted"
    print(f"submit: {frame.height / submitting:,.0f} requests/s in batches of {given.batch:,}")
    print(f"whole: {frame.height / whole:,.0f} requests/s, {whole:.2f} s; replay: {replayed:.2f} s")


if __name__ == "__main__":
    main()
