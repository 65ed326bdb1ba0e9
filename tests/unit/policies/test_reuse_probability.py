"""Eviction by the probability of reuse: which category is evicted first."""

from __future__ import annotations

import pytest

from paceline import Affine, Cluster, Instance, PolicyError, Trace, policies, replay


def cached(reuse: dict[float, tuple[float, float]], life_s: float) -> list[int]:
    """Return the cached tokens of the prompts A, B, C, A, B in three blocks; B has its own category."""
    trace = Trace.from_columns(
        arrival=[0, 10, 20, 30, 40],
        prompt_tokens=[17] * 5,
        output_tokens=[1] * 5,
        prefix=[[1], [2], [3], [1], [2]],
        prefix_block_tokens=16,
        priority=[0, 5, 0, 0, 5],
    )
    cluster = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=4)])
    policy = policies.reuse_probability(category="priority", reuse=reuse, life_s=life_s)
    return replay(trace, cluster, policy).requests["cached_tokens"].to_list()


def test_the_less_likely_category_is_evicted_first() -> None:
    # When C comes, A is idle for 10 s and B for none. A has the mean 10 s, B 1000 s. In the next 60 s A is
    # used with the probability 0.5 e^-1 (1 - e^-6) = 0.18, and B with 0.9 (1 - e^-0.06) = 0.05: B is evicted.
    assert cached({0: (0.5, 10.0), 5: (0.9, 1000.0)}, 60.0) == [0, 0, 0, 16, 0]
    # Within 10,000 s it is 0.18 and 0.9: A is evicted, and then C by A, 0.5 against 0.89.
    assert cached({0: (0.5, 10.0), 5: (0.9, 1000.0)}, 10_000.0) == [0, 0, 0, 0, 16]


def test_a_category_that_is_not_known_is_evicted_first() -> None:
    assert cached({5: (0.1, 10.0)}, 60.0) == [0, 0, 0, 0, 16]


@pytest.mark.parametrize("parts", [{"life_s": 0.0}, {"reuse": {1: (0.0, 1.0)}}, {"reuse": {1: (0.5, 0.0)}}])
def test_shares_and_times_out_of_range_are_refused(parts: dict[str, object]) -> None:
    with pytest.raises(PolicyError, match="above 0"):
        policies.reuse_probability(**parts)  # type: ignore[arg-type]
