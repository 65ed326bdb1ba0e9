"""A million requests in closed loop against the same million in open loop, in alternating runs.

    python benches/closed_loop.py [--requests 1000000] [--rounds 5]

The open loop sends azure-conv at a rate that loads 16 instances to some 80%; the closed loop keeps as many
requests in flight as the open loop had on average, so that both take about as long in simulated time. Prints
the median of the ratios of neighbouring runs.
"""

from __future__ import annotations

import argparse
import statistics
import time

import polars as pl

from paceline import Cluster, Concurrency, Instance, Trace, replay, synthesize


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    opened = synthesize("azure-conv", requests=given.requests, seed=1, rate=250.0)
    cluster = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")] * 16)
    first = replay(opened, cluster)
    in_flight = round(float(first.requests["e2e"].sum()) / opened.span_s)
    closed = Trace(opened.frame.with_columns(pl.lit(0.0).alias("arrival"))).by(Concurrency(in_flight))
    end = [float(replay(trace, cluster).requests["finish"].max()) for trace in (opened, closed)]  # type: ignore[arg-type]
    print(f"{in_flight} in flight; simulated {end[0]:,.0f} s open, {end[1]:,.0f} s closed")
    ratios: list[float] = []
    for _ in range(given.rounds):
        times = []
        for trace in (opened, closed):
            began = time.perf_counter()
            replay(trace, cluster)
            times.append(time.perf_counter() - began)
        ratios.append(times[1] / times[0])
        print(f"open {times[0]:.3f} s, closed {times[1]:.3f} s: {ratios[-1]:.2f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
