"""Requests that their clients cancel: hand-worked timelines."""

from __future__ import annotations

import pytest

import paceline
from paceline import Affine, Cluster, Concurrency, Instance, Links, Trace, policies
from paceline.policy import Policy, first_of, hold, inst, pick
from paceline.testing import check
from unit.replaying.tenths import ALONE, TENTH, moments, sent


def ends(result: paceline.Result) -> list[tuple[str, int]]:
    return result.requests.select("status", "generated_tokens").rows()


def test_a_request_that_waits_leaves_at_once_and_the_next_takes_its_turn() -> None:
    # One runs at a time: the first until 0.3. The second is cancelled at 0.15, so that the third runs then.
    trace = sent(arrival=[0.0] * 3, output_tokens=[3, 5, 1], cancel_after=[None, 0.15, None])
    result = paceline.replay(trace, TENTH, ALONE)
    check(result)
    assert ends(result) == [("finished", 3), ("cancelled", 0), ("finished", 1)]
    assert moments(result, "cancelled_at") == [None, 0.15, None]
    assert moments(result, "finish") == [0.3, None, 0.4]
    assert moments(result, "scheduled") == [0.0, None, 0.3]
    assert result.stats.instances[0].waiting_ticks == round((0.15 + 0.3) * 10**12)


def test_a_request_that_runs_leaves_at_the_end_of_its_step_whose_token_counts() -> None:
    # Cancelled at 0.25, it has three tokens at 0.3, where it leaves. The next request runs from then on.
    trace = sent(arrival=[0.0, 0.0], output_tokens=[9, 2], cancel_after=[0.25, None])
    result = paceline.replay(trace, TENTH, ALONE)
    check(result)
    assert ends(result) == [("cancelled", 3), ("finished", 2)]
    assert (moments(result, "scheduled"), moments(result, "finish")) == ([0.0, 0.3], [None, 0.5])
    instance = result.stats.instances[0]
    assert (instance.cancelled, instance.finished) == (1, 1)


def test_a_request_whose_step_ends_at_that_moment_leaves_then() -> None:
    # At 0.2 its second token has come, and the third step does not start.
    trace = sent(arrival=[0.0, 0.0], output_tokens=[9, 2], cancel_after=[0.2, None])
    result = paceline.replay(trace, TENTH, ALONE)
    assert ends(result) == [("cancelled", 2), ("finished", 2)]
    assert moments(result, "scheduled") == [0.0, 0.2]


def test_the_last_token_at_that_moment_finishes_a_request_and_one_later_does_not() -> None:
    trace = sent(arrival=[0.0, 0.0], output_tokens=[2, 2], cancel_after=[0.2, 0.15])
    result = paceline.replay(trace, TENTH)
    check(result)
    # The second has all its tokens at 0.2 as well, but its client went away at 0.15.
    assert ends(result) == [("finished", 2), ("cancelled", 2)]
    assert moments(result, "finish") == [0.2, None]


def test_a_client_may_cancel_after_some_tokens() -> None:
    trace = sent(arrival=[0.0] * 3, output_tokens=[5, 5, 2], cancel_after_tokens=[3, None, 4])
    result = paceline.replay(trace, TENTH)
    check(result)
    assert ends(result) == [("cancelled", 3), ("finished", 5), ("finished", 2)]
    assert moments(result, "cancelled_at") == [0.3, None, None]
    assert result.totals().cancelled_by_reason == {"its client cancelled it": 1}
    assert result.totals().wasted_tokens == 3


def test_blocks_of_a_cancelled_request_are_free_for_others() -> None:
    # 6 usable blocks of 16 tokens: the first request takes 5, so that the second, of 4, does not fit.
    small = Cluster([Instance(cost=Affine(step_s=0.1), num_blocks=7)])
    trace = sent(arrival=[0.0, 0.0], prompt_tokens=[70, 60], output_tokens=[20, 1], cancel_after=[0.45, None])
    result = paceline.replay(trace, small)
    check(result)
    assert moments(result, "scheduled") == [0.0, 0.5]


def test_what_the_prefix_cache_has_of_a_cancelled_request_stays() -> None:
    # The second prompt begins with the two blocks of the first, which is cancelled in its second step.
    trace = Trace.from_columns(
        arrival=[0.0, 1.0],
        prompt_tokens=[40, 40],
        output_tokens=[9, 1],
        prefix=[[1, 2], [1, 2]],
        prefix_block_tokens=16,
        cancel_after=[0.15, None],
    )
    result = paceline.replay(trace, TENTH, policies.vllm(prefix_caching=True))
    check(result)
    assert result.requests["cached_tokens"].to_list() == [0, 32]


def test_a_request_that_a_router_holds_leaves_it() -> None:
    # A router lets one request run at a time. The second is held until its client cancels it at 0.15.
    one = first_of(pick(min=inst.index, where=inst.requests < 1), hold())
    policy = Policy(name="one at a time", on_arrival=one)
    trace = sent(arrival=[0.0, 0.0, 0.05], output_tokens=[3, 1, 1], cancel_after=[None, 0.15, None])
    result = paceline.replay(trace, TENTH, policy, sample=0.1)
    check(result)
    assert ends(result) == [("finished", 3), ("cancelled", 0), ("finished", 1)]
    assert moments(result, "held") == [0.0, 0.15, 0.25]
    assert result.requests["instance"].to_list() == [0, None, 0]
    router = result.router_timeline
    assert router["cancelled"].to_list() == [0, 1, 0, 0]
    assert router["held"].to_list() == [2, 1, 0, 0]


def test_a_request_may_be_cancelled_as_it_is_sent() -> None:
    result = paceline.replay(sent(arrival=[0.0, 0.5], cancel_after=[0.0, None]), TENTH)
    check(result)
    assert ends(result) == [("cancelled", 0), ("finished", 1)]
    assert result.requests["instance"].to_list() == [None, 0]


def test_the_front_end_passes_a_request_before_it_is_cancelled() -> None:
    # Its time is up at 0.02, and it reaches the routers at 0.05.
    cluster = Cluster([Instance(cost=Affine(step_s=0.1), num_blocks=101)], frontend_s=0.05)
    result = paceline.replay(sent(arrival=[0.0], cancel_after=[0.02]), cluster)
    check(result)
    assert (ends(result), moments(result, "cancelled_at")) == ([("cancelled", 0)], [0.05])


def test_turns_after_a_cancelled_one_are_never_sent() -> None:
    trace = sent(
        arrival=[0.0, 0.0, 0.0],
        output_tokens=[9, 1, 1],
        session=["a", "a", "b"],
        think_time=[None, 0.5, None],
        cancel_after=[0.25, None, None],
    )
    result = paceline.replay(trace, TENTH)
    check(result)
    assert result.requests["status"].to_list() == ["cancelled", "not_arrived", "finished"]


def test_the_slot_of_a_client_is_free_when_it_cancels() -> None:
    # One in flight. The first is cancelled at 0.25; the second is sent then, and joins the step at 0.3.
    trace = sent(arrival=[0.0, 0.0], output_tokens=[9, 1], cancel_after=[0.25, None])
    result = paceline.replay(trace, TENTH, clients=Concurrency(1))
    check(result)
    assert (moments(result, "arrival"), moments(result, "finish")) == ([0.0, 0.25], [None, 0.4])


def test_cancelled_requests_miss_their_objectives() -> None:
    trace = sent(arrival=[0.0] * 4, output_tokens=[1, 1, 1, 9], cancel_after=[None, None, None, 0.25])
    result = paceline.replay(trace, TENTH)
    assert result.attainment(paceline.SLO(ttft=1.0)) == 0.75
    assert result.totals().cancelled == 1


def test_a_request_that_is_cancelled_when_time_ends_is_so_though_its_step_runs() -> None:
    trace = sent(arrival=[0.0, 0.0], output_tokens=[9, 9], cancel_after=[0.25, None])
    result = paceline.replay(trace, TENTH, until=0.28)
    check(result)
    assert ends(result) == [("cancelled", 2), ("running", 2)]


def test_a_request_that_is_transferred_leaves_once_its_kv_has_arrived() -> None:
    # A prompt of 100 tokens is computed at 0.1. Its KV takes 1 s. The client goes away at 0.5.
    instance = Instance(cost=Affine(step_s=0.1), num_blocks=101, kv_bytes=10_000_000)
    cluster = Cluster([instance] * 2, links=Links(gbps=8))
    trace = sent(arrival=[0.0], prompt_tokens=[100], output_tokens=[5], cancel_after=[0.5])
    result = paceline.replay(trace, cluster, policies.disaggregated())
    check(result)
    assert (ends(result), moments(result, "cancelled_at")) == ([("cancelled", 1)], [0.5])
    assert result.stats.end_ticks == round(1.1 * 10**12)
    assert [one.cancelled for one in result.stats.instances] == [0, 1]


def test_an_offer_that_waits_for_blocks_is_withdrawn() -> None:
    # The decode instance has 5 blocks of 16 tokens. The prompts need 4 and 2, so that the second offer waits
    # there, and its KV at its source. It is cancelled at 0.45.
    one = Instance(cost=Affine(step_s=0.1), num_blocks=8, kv_bytes=1)
    trace = sent(arrival=[0.0, 0.0], prompt_tokens=[60, 20], output_tokens=[9, 60], cancel_after=[None, 0.45])
    cluster = Cluster([one, Instance(cost=Affine(step_s=0.1), num_blocks=6, kv_bytes=1)])
    result = paceline.replay(trace, cluster, policies.disaggregated())
    check(result)
    assert result.requests["status"].to_list() == ["finished", "cancelled"]
    assert sum(one.cancelled for one in result.stats.instances) == 1


@pytest.mark.parametrize("leap", [True, False])
def test_a_long_run_of_steps_ends_where_a_request_is_cancelled(leap: bool) -> None:
    # Both decode together; from 50.1 s on, the second alone.
    trace = sent(arrival=[0.0, 0.0], output_tokens=[1000, 1000], cancel_after=[50.05, None])
    result = paceline.replay(trace, TENTH, leap=leap)
    check(result)
    assert ends(result) == [("cancelled", 501), ("finished", 1000)]
    assert result.stats.instances[0].decode_tokens == 500 + 999
