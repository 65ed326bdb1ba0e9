"""Compare a router in Python with the same rule as data: `.venv/bin/python benches/python_router.py`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import paceline
from paceline import inst
from paceline.policy import Policy, Rule, pick

REQUESTS, INSTANCES, ROUNDS = 100_000, 8, 5


def least(request: Any, instances: Sequence[Any]) -> int:
    """Pick the instance with the fewest KV tokens."""
    return min(range(len(instances)), key=lambda index: instances[index].kv_tokens)


def best_s(trace: paceline.Trace, cluster: paceline.Cluster, rule: Rule) -> float:
    """Return the shortest time of a few replays, in seconds."""
    policy, taken = Policy(name="measured", on_arrival=rule), []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        paceline.replay(trace, cluster, policy)
        taken.append(time.perf_counter() - begun)
    return min(taken)


def main() -> None:
    """Measure both, and print the difference per decision."""
    draw = np.random.default_rng(0)
    trace = paceline.Trace.from_columns(
        arrival=np.cumsum(draw.exponential(1 / 40, REQUESTS)),
        prompt_tokens=draw.integers(100, 1000, REQUESTS),
        output_tokens=draw.integers(10, 400, REQUESTS),
    )
    cluster = paceline.Cluster(INSTANCES * [paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    data, python = best_s(trace, cluster, pick(min=inst.kv_tokens)), best_s(trace, cluster, least)
    more = (python - data) / REQUESTS * 1e6
    print(f"{REQUESTS:,} requests, {INSTANCES} instances, best of {ROUNDS}:")
    print(f"as data {data:.2f} s, in Python {python:.2f} s, {more:.1f} us more a decision")


if __name__ == "__main__":
    main()
