"""The memory that requests ask for, by hand and by brute force, and the settings of the policies."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from paceline import replay
from paceline.policy import Policy
from paceline.study.pascal.demand import full_step_s, load_of, most_held, rate_of, stretched
from paceline.study.pascal.hardware import INSTANCES, kv_tokens, pascals_instance
from paceline.study.pascal.schedulers import POLICIES, cluster_of, scheduler
from paceline.study.pascal.workloads import Asked, chats


def _lengths(*pairs: tuple[int, int]) -> pl.DataFrame:
    return pl.DataFrame(pairs, schema=["prompt_tokens", "output_tokens"], orient="row")


def test_a_request_holds_its_prompt_and_all_it_has_decoded_until_it_ends() -> None:
    assert most_held(np.array([3.0]), _lengths((100, 10)), 0.5) == 110.0


def test_what_requests_hold_adds_up_while_they_overlap() -> None:
    two = _lengths((100, 10), (30, 10))
    assert most_held(np.array([0.0, 5.0]), two, 1.0) == 100 + 10 + 30 + 5
    # The second comes after the first has gone.
    assert most_held(np.array([0.0, 10.5]), two, 1.0) == 110.0


def test_the_most_that_is_held_is_what_looking_at_every_moment_finds() -> None:
    trace = Asked(workload=chats("arena-hard"), requests=300).draw(7).frame
    arrival, step = trace["arrival"].to_numpy() / 20.0, 0.03
    prompt, output = (trace[name].to_numpy().astype(float) for name in ("prompt_tokens", "output_tokens"))
    moments = np.linspace(0.0, float((arrival + output * step).max()), 20_001)[:, None]
    running = (moments >= arrival) & (moments <= arrival + output * step)
    seen = np.where(running, prompt + (moments - arrival) / step, 0.0).sum(axis=1).max()
    found = most_held(arrival, trace, step)
    assert seen <= found <= seen * 1.01


def test_a_rate_is_the_one_at_which_requests_make_the_load() -> None:
    trace = Asked(workload=chats("alpacaeval"), requests=2000).draw(3)
    instance = pascals_instance(share=0.25)
    for load in (0.5, 1.0):
        faster = stretched(trace, load, instance)
        arrival = faster.frame["arrival"].to_numpy()
        assert load_of(arrival, faster.frame, instance) == pytest.approx(load, rel=1e-3)
    arrival = trace.frame["arrival"].to_numpy()
    assert rate_of(0.5, arrival, trace.frame, instance) < rate_of(1.0, arrival, trace.frame, instance)


def test_a_step_that_is_slowed_takes_as_many_times_as_long() -> None:
    lengths = Asked(workload=chats("alpacaeval"), requests=500).draw(3).frame
    once, twice = (full_step_s(lengths, pascals_instance(slower=slower)) for slower in (1.0, 2.0))
    assert twice == pytest.approx(2 * once, rel=1e-6)


def test_an_instance_has_vllms_share_of_the_memory_less_weights_and_activations() -> None:
    whole, half = kv_tokens(pascals_instance()), kv_tokens(pascals_instance(share=0.5))
    # 0.9 of 94.5 GiB hold 61.0 GiB of weights (32.8e9 parameters of 2 bytes) and at 0.25 MiB a token
    # at most 24.0 GiB of KV; activations and what lies outside PyTorch take some of that.
    assert 80_000 < whole < (0.9 * 94.5 - 61.0) * 4096
    assert half == pytest.approx(whole / 2, abs=16)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_of_the_paper_finishes_what_it_is_given_under_pressure(name: str) -> None:
    instance = pascals_instance(share=0.2)
    trace = stretched(Asked(workload=chats("alpacaeval"), requests=400).draw(5), 1.3, instance)
    result = replay(trace, cluster_of(instance, INSTANCES), scheduler(name))
    assert result.requests["generated_tokens"].to_list() == trace.frame["output_tokens"].to_list()


def _settings(policy: Policy) -> tuple[object, ...]:
    formed = policy.scheduler
    return (
        formed.max_num_batched_tokens,
        formed.max_num_seqs,
        formed.watermark,
        formed.preemption,
        policy.pace,
    )


def test_the_policies_differ_in_their_orders_and_moves_alone() -> None:
    assert len({repr(_settings(scheduler(name))) for name in POLICIES}) == 1


def test_arguments_of_a_variation_reach_the_function_that_they_name() -> None:
    arguments = {"pascal": {"quantum": 250}, "all": {"watermark": 0.5}}
    assert repr(scheduler("PASCAL", arguments=arguments).scheduler.order) == "Quantum(250)"
    assert repr(scheduler("RR", arguments=arguments).scheduler.order) == "Quantum(500)"
    assert {scheduler(name, arguments=arguments).scheduler.watermark for name in POLICIES} == {0.5}
