"""Compare the cost of a decision with 10 and 1,000 instances: `.venv/bin/python benches/routing_cost.py`.

The cost is the processor time of a replay under a rule less that of the same requests under round robin, by
request. Instances are so fast that no queue forms, so that the rest of a replay costs the same under both.
Arrow is compared with its ablation, round robin within each pool: each request migrates under both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import paceline
from paceline import policies
from paceline.policy import Policy

REQUESTS, BLOCKS, BLOCK_TOKENS, ROUNDS = 20_000, 128, 16, 5


def requests() -> paceline.Trace:
    """Return prompts of 2,048 tokens: one of 50 beginnings of 64 blocks, and 64 blocks of their own."""
    draw = np.random.default_rng(0)
    shared = draw.integers(0, 50, REQUESTS)
    prefixes = [
        [int(group) * BLOCKS + at for at in range(BLOCKS // 2)]
        + [2**40 + row * BLOCKS + at for at in range(BLOCKS // 2)]
        for row, group in enumerate(shared)
    ]
    return paceline.Trace.from_columns(
        arrival=np.cumsum(draw.exponential(1 / 400, REQUESTS)),
        prompt_tokens=np.full(REQUESTS, BLOCKS * BLOCK_TOKENS),
        output_tokens=draw.integers(2, 8, REQUESTS),
        prefix=prefixes,
        prefix_block_tokens=BLOCK_TOKENS,
    )


def best_s(trace: paceline.Trace, instances: int, policy: Policy) -> float:
    """Return the shortest time of a few replays, in seconds."""
    instance = paceline.Instance(cost=paceline.Affine(step_s=0.001), num_blocks=100_000, block_tokens=16)
    taken = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        paceline.replay(trace, paceline.Cluster([instance] * instances), policy)
        taken.append(time.process_time() - begun)
    return min(taken)


def in_turn(instances: int) -> Policy:
    """Return round robin over all instances."""
    return Policy(name="plain", on_arrival="round_robin")


def arrow(instances: int, **how: Any) -> Policy:
    """Return Arrow with as many instances for prefill as for decode."""
    return policies.arrow(prefill=instances // 2, decode=instances // 2, **how)


def cases() -> Iterator[tuple[str, Callable[[int], Policy], Callable[[int], Policy]]]:
    """Yield the name of each rule, its policy by the number of instances, and what that is compared with."""
    for policy in (
        policies.dynamo(),
        policies.dynamo(tracking=policies.DynamoTracking(use_kv_events=False)),
        policies.sglang_router(),
    ):
        learns = "" if policy.index is None else f", index learns when {policy.index.learns}"
        yield policy.name + learns, lambda instances, policy=policy: policy, in_turn

    yield "arrow", arrow, partial(arrow, scheduling="round_robin")


def main() -> None:
    """Measure each policy at both sizes, and print the cost of a decision."""
    trace = requests()
    print(f"{REQUESTS:,} requests of {BLOCKS} blocks, best of {ROUNDS}: microseconds beyond round robin")
    for name, policy, plain in cases():
        cost = {}
        for instances in (10, 1000):
            beyond = best_s(trace, instances, policy(instances)) - best_s(trace, instances, plain(instances))
            cost[instances] = beyond / REQUESTS * 1e6
        ratio = cost[1000] / cost[10]
        print(f"{name}: {cost[10]:.1f} with 10, {cost[1000]:.1f} with 1,000: {ratio:.1f} times")


if __name__ == "__main__":
    main()
