"""Scenarios small enough to follow on paper, and random ones, replayed through a policy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from hypothesis import strategies as st

import paceline
from paceline.policy import Policy
from paceline.result import Result

Shape = tuple[float, int, int]
"""Arrival in seconds, prompt tokens, output tokens."""


def run(
    policy: Policy,
    requests: Sequence[Shape],
    *,
    blocks: int = 100,
    token_s: float = 0.0,
    leap: bool = True,
    block_tokens: int = 4,
    instances: int | None = None,
    **optional: Any,
) -> Result:
    """Replay through the instances of the policy's pools, or one: a second a step, ``token_s`` a token."""
    (result,) = run_each(
        [(policy, leap)],
        requests,
        blocks=blocks,
        token_s=token_s,
        block_tokens=block_tokens,
        instances=instances,
        **optional,
    )
    return result


def run_each(
    several: Sequence[tuple[Policy, bool]],
    requests: Sequence[Shape],
    *,
    blocks: int = 100,
    token_s: float = 0.0,
    block_tokens: int = 4,
    instances: int | None = None,
    **optional: Any,
) -> list[Result]:
    """Replay as `run` does, through each policy, leaping or not."""
    arrival, prompt, output = zip(*requests, strict=True)
    trace = paceline.Trace.from_columns(
        arrival=list(arrival), prompt_tokens=list(prompt), output_tokens=list(output), **optional
    )
    cost = paceline.Affine(step_s=1.0, token_s=token_s, kv_token_s=0.0)
    # Block 0 holds no tokens.
    instance = paceline.Instance(cost=cost, num_blocks=blocks + 1, block_tokens=block_tokens)
    results = []
    for policy, leap in several:
        count = instances or (1 if policy.pools is None else sum(policy.pools.sizes.values()))
        results.append(paceline.replay(trace, paceline.Cluster(count * [instance]), policy, leap=leap))
    return results


def times(result: Result, column: str) -> list[float | None]:
    """Return a column of times, to the picosecond."""
    return [None if value is None else round(value, 12) for value in result.requests[column]]


# Short gaps make requests queue, and zeros make arrivals coincide; with few blocks requests are preempted.
GAPS = st.sampled_from([0.0, 0.0, 0.3, 1.0, 2.5, 20.0])
SHAPES = st.lists(st.tuples(GAPS, st.integers(1, 25), st.integers(1, 40)), min_size=1, max_size=14)


@st.composite
def workloads(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the arguments of `run`, with prompts that share what they begin with."""
    shapes = draw(SHAPES)
    arrivals = accumulate(gap for gap, *_ in shapes)
    block_tokens = draw(st.sampled_from([1, 4, 16]))
    families = draw(st.lists(st.lists(st.integers(0, 2), max_size=12), min_size=1, max_size=3))
    prefixes = []
    for _, prompt, _ in shapes:
        prefixes.append(draw(st.sampled_from(families))[: prompt // block_tokens])
    return {
        "requests": [(at, prompt, out) for at, (_, prompt, out) in zip(arrivals, shapes, strict=True)],
        "blocks": draw(st.sampled_from([30, 64, 70, 90, 130, 600])) // block_tokens + 1,
        "token_s": draw(st.sampled_from([0.0, 0.01])),
        "block_tokens": block_tokens,
        "priority": [draw(st.integers(0, 2)) for _ in shapes],
        "score": [draw(st.sampled_from([-1.5, 0.0, 2.0])) for _ in shapes],
        "tenant": [draw(st.sampled_from(["a", "b", "c"])) for _ in shapes],
        "slo_ttft": [draw(st.sampled_from([None, 1.0, 20.0])) for _ in shapes],
        "critical_path": [draw(st.sampled_from([0.0, 5.0, 90.0])) for _ in shapes],
        "reasoning_tokens": [draw(st.integers(0, out)) for *_, out in shapes],
        "prefix": prefixes,
        "prefix_block_tokens": block_tokens,
    }
