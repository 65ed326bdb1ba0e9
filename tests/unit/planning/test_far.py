"""A plan without a near bound ends: at an instance a request, or where one alone misses the objective."""

from __future__ import annotations

import paceline
from paceline import SLO, Affine, Candidates, Instance, Trace, policies

# A request takes 0.5 s, and all ten arrive at once.
AT_ONCE = Trace.from_columns(arrival=[0.0] * 9 + [1.0], prompt_tokens=[1] * 10, output_tokens=[1] * 10)
SERVER = Instance(cost=Affine(step_s=0.5), num_blocks=9)
MANY = Candidates(SERVER, most=10**9)
ONE_BY_ONE = policies.vllm(max_num_seqs=1)


def test_an_objective_below_the_time_of_one_request_is_hopeless() -> None:
    found = paceline.plan(AT_ONCE, MANY, ONE_BY_ONE, SLO(ttft=0.4))
    assert (found.best, found.hopeless) == (None, ("instance 0",))
    # Ten requests: no larger cluster differs from one with an instance for each.
    assert found.evaluated["instances"].max() == 10


def test_a_reachable_objective_is_found_however_large_the_bound_is() -> None:
    found = paceline.plan(AT_ONCE, MANY, ONE_BY_ONE, SLO(ttft=0.5), 1.0)
    assert (found.best["instances"], found.hopeless) == (9, ())
    near = paceline.plan(AT_ONCE, SERVER, ONE_BY_ONE, SLO(ttft=0.5), 1.0)
    assert found.table.equals(near.table)


def test_a_search_that_a_policy_makes_hopeless_ends_at_an_instance_a_request() -> None:
    # All requests go to instance 0, alone or not; alone each meets the objective.
    policy = paceline.Policy(
        name="first", scheduler=ONE_BY_ONE.scheduler, on_arrival=paceline.policy.pick(min=paceline.inst.index)
    )
    found = paceline.plan(AT_ONCE, MANY, policy, SLO(ttft=0.5), 1.0)
    assert (found.best, found.hopeless) == (None, ())
    assert found.evaluated["instances"].max() == 10


def test_pools_are_searched_up_to_an_instance_of_each_for_a_request() -> None:
    found = paceline.plan(AT_ONCE, MANY, policies.disaggregated, SLO(e2e=0.1), split=("prefill", "decode"))
    assert found.hopeless == ("instance 0",)
    assert found.evaluated["instances"].max() == 20
