"""Layered prefill: in how many steps a batch gets its first tokens. A step takes a second."""

from __future__ import annotations

import pytest

from paceline.policies import layered_prefill
from paceline.policies.layered_prefill import by_tokens
from unit.policies.scenario import run, times

BOTH = pytest.mark.parametrize("leap", [True, False])


@BOTH
@pytest.mark.parametrize(
    ("tokens", "steps"), [(1, 1), (512, 1), (513, 2), (4096, 8), (4097, 9), (8191, 16), (8192, 16)]
)
def test_the_papers_rule_is_a_group_for_each_512_tokens(tokens: int, steps: int, leap: bool) -> None:
    policy = layered_prefill(layers=48, groups=by_tokens(48))
    result = run(policy, [(0, tokens, 1)], blocks=3000, leap=leap)
    assert times(result, "first_token") == [float(steps)]


@BOTH
@pytest.mark.parametrize(
    ("most", "tokens", "steps"),
    [
        *((16, 512, 1), (16, 513, 2), (16, 2048, 4), (16, 4096, 8), (16, 4097, 16)),
        *((24, 4097, 24), (12, 4096, 6), (12, 4097, 12), (4, 1025, 4), (4, 8192, 4)),
    ],
)
def test_the_authors_table(most: int, tokens: int, steps: int, leap: bool) -> None:
    result = run(layered_prefill(layers=48, groups=most), [(0, tokens, 1)], blocks=3000, leap=leap)
    assert times(result, "first_token") == [float(steps)]


@BOTH
def test_no_request_joins_a_batch_between_groups(leap: bool) -> None:
    """A and B, 1,000 tokens together, run in two groups; C arrives in the first and waits for both."""
    requests = [(0.0, 600, 1), (0.0, 400, 1), (0.5, 100, 1)]
    result = run(layered_prefill(layers=48), requests, blocks=3000, leap=leap)
    assert times(result, "scheduled") == [0.0, 0.0, 2.0]
    assert times(result, "first_token") == [2.0, 2.0, 3.0]


@BOTH
def test_decodes_go_through_all_layers_in_every_step(leap: bool) -> None:
    """A yields a token in every step while B's 1,500 tokens run in four groups, from 1 s to 5 s."""
    result = run(layered_prefill(layers=48), [(0.0, 10, 6), (0.5, 1500, 1)], blocks=3000, leap=leap)
    assert times(result, "finish") == [6.0, 5.0]
    assert times(result, "max_itl") == [1.0, None]
