"""Arrow on four instances: two prefill, two decode, a second for each step.

A prompt takes a second, so that a TTFT of 1.5 s leaves room for one prompt at an instance. Prompts of 20
tokens exceed a limit of 10 running tokens at once.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import policies
from paceline.errors import PolicyError
from paceline.policy import Policy
from paceline.testing import check
from unit.policies.scenario import Shape, run

Flip = tuple[float, int, str, str]


def arrow(**given: Any) -> Policy:
    """Return Arrow with objectives and a monitor that matter only where a test gives them."""
    return policies.arrow(
        **{"prefill": 2, "decode": 2, "ttft": 100.0, "tpot": 10.0, "period_s": 1e5, "low": 1.0, **given}
    )


def served(policy: Policy, requests: list[Shape]) -> tuple[list[int], list[int], list[Flip]]:
    """Return where requests were prefilled and where they ended, and the flips."""
    result = run(policy, requests, blocks=1000)
    check(result)
    rows = result.requests
    flips = result.flips.select("time_s", "instance", "from", "to").rows()
    return rows["instance"].to_list(), rows["last_instance"].to_list(), flips


def test_a_prompt_that_would_miss_its_objective_flips_a_decode_instance() -> None:
    first, last, flips = served(arrow(ttft=1.5), [(0.0, 8, 3)] * 4)
    # 0 and 1 have a prompt each, so that 2 is flipped. 3 is the last to decode: the fourth prompt waits at 0.
    assert first == [0, 1, 2, 0]
    assert flips == [(0.0, 2, "decode", "prefill")]
    assert last == [3, 3, 3, 3]


def test_a_decode_instance_is_not_flipped_while_decode_load_is_high() -> None:
    requests: list[Shape] = [(0.0, 20, 30), (0.0, 20, 30), *[(5.0, 20, 2)] * 3]
    # At 5 s, 20 tokens and 4 or 5 of outputs are on each decode instance: 0.25 of 100, 0.5 of 50.
    given = {"ttft": 1.5, "low": 0.4}
    assert served(arrow(max_running_tokens=100, **given), requests)[0] == [0, 1, 0, 1, 2]
    assert served(arrow(max_running_tokens=50, **given), requests)[0] == [0, 1, 0, 1, 0]


def test_a_flipped_decode_instance_joins_prefill_once_its_decodes_have_finished() -> None:
    requests: list[Shape] = [(0.0, 20, 30), (0.0, 20, 40), *[(5.5, 20, 2)] * 3]
    first, last, flips = served(arrow(ttft=1.5), requests)
    # Both decode instances have as many tokens: 2 is flipped. Its request ends 29 steps after second 1.
    assert flips == [(5.5, 2, "decode", "decode→prefill"), (30.0, 2, "decode→prefill", "prefill")]
    assert (first[4], last[4]) == (2, 3)


def test_a_prefilled_request_flips_its_own_idle_instance_if_decode_instances_are_full() -> None:
    requests: list[Shape] = [(0.0, 20, 50), (0.0, 20, 50), (1.5, 20, 5), (3.0, 20, 5)]
    first, last, flips = served(arrow(max_running_tokens=10), requests)
    assert flips == [(2.5, 0, "prefill", "decode")]
    # The last prompt ends at 4 s on the one prefill instance left, which stays: it decodes where the fewest
    # tokens are, on 0, where 20 and 2 outputs are against 20 and 4.
    assert first == [0, 1, 0, 1]
    assert last == [2, 3, 0, 0]


def test_a_flipped_prefill_instance_with_prompts_left_decodes_when_they_have_ended() -> None:
    requests: list[Shape] = [
        (0.0, 20, 50),
        (0.0, 20, 50),
        (1.5, 20, 9),
        (1.5, 20, 9),
        (1.6, 20, 9),
        (1.6, 20, 9),
    ]
    first, last, flips = served(arrow(max_running_tokens=10), requests)
    assert first == [0, 1, 0, 1, 0, 1]
    assert flips == [(2.5, 0, "prefill", "prefill→decode"), (3.5, 0, "prefill→decode", "decode")]
    # Both prompts of 0 stay there.
    assert (last[2], last[4]) == (0, 0)


def test_the_monitor_flips_a_prefill_instance_if_tokens_take_too_long() -> None:
    # At 4 s the intervals of the decode instances are 1 s and 0 (none yet); their mean exceeds 0.4. At 8 s
    # three instances decode, and the mean is a third.
    requests: list[Shape] = [(0.0, 8, 20)]
    assert served(arrow(tpot=0.4, period_s=4.0), requests)[2] == [(4.0, 0, "prefill", "decode")]
    assert served(arrow(tpot=0.6, period_s=4.0), requests)[2] == []


def test_the_monitor_flips_an_idle_prefill_instance_while_decode_is_busy() -> None:
    requests: list[Shape] = [(0.0, 38, 20), (0.0, 38, 20), (3.5, 2000, 2)]
    # Prefill instance 0 has the long prompt from 3.5 s on, so that 1 is idle.
    given = {"max_running_tokens": 100, "period_s": 4.0, "low": 0.1}
    assert served(arrow(busy=0.3, **given), requests)[2] == [(4.0, 1, "prefill", "decode")]
    assert served(arrow(busy=0.6, **given), requests)[2] == []


def test_minimal_load_and_round_robin_differ_where_prompts_do() -> None:
    # Prompts of 2 steps, 1 and 1: the third goes to the instance with less queued, or in turn. The second
    # decodes first.
    requests: list[Shape] = [(0.0, 3000, 9), (0.1, 8, 9), (0.2, 8, 9)]
    least, turns = (arrow(scheduling=name) for name in ("minimal_load", "round_robin"))
    assert served(least, requests) == ([0, 1, 1], [3, 2, 2], [])
    assert served(turns, requests) == ([0, 1, 0], [3, 2, 2], [])


def test_a_share_out_of_range_is_refused() -> None:
    with pytest.raises(PolicyError, match="low of arrow"):
        arrow(low=1.5)


def test_every_form_is_read_back_from_toml() -> None:
    forms = [arrow(scheduling=name) for name in ("slo_aware", "minimal_load", "round_robin")]
    for policy in (*forms, policies.arrow_xllm(), policies.disaggregated(prefill=2, decode=3)):
        assert Policy.from_toml(policy.to_toml()) == policy


GAPS = st.sampled_from([0.0, 0.3, 1.0, 20.0])
SHAPES = st.lists(st.tuples(GAPS, st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=20)


@given(
    shapes=SHAPES,
    policy=st.one_of(
        st.builds(
            arrow,
            ttft=st.sampled_from([0.5, 1.5, 4.0]),
            tpot=st.sampled_from([0.5, 1.0, 2.0]),
            low=st.sampled_from([0.1, 1.0]),
            busy=st.sampled_from([0.1, 1.0]),
            max_running_tokens=st.sampled_from([10, 100]),
            period_s=st.sampled_from([0.5, 3.0]),
        ),
        st.builds(
            policies.arrow_xllm,
            prefill=st.just(2),
            decode=st.just(2),
            ttft=st.sampled_from([0.5, 1.5]),
            tpot=st.sampled_from([0.01, 0.02]),
            token_s=st.sampled_from([1e-8, 1e-3]),
        ),
    ),
)
def test_an_instance_stays_for_each_kind_of_work(shapes: list[Shape], policy: Policy) -> None:
    arrivals = accumulate(gap for gap, *_ in shapes)
    result = run(policy, [(at, prompt, out) for at, (_, prompt, out) in zip(arrivals, shapes, strict=True)])
    bound = dict(enumerate(["prefill"] * 2 + ["decode"] * 2))
    for index, to in result.flips.select("instance", "to").rows():
        bound[index] = to.rpartition("→")[2]
        assert set(bound.values()) == {"prefill", "decode"}
