"""What the condition of `unless` reads of no named instance, it reads of the instance that was picked."""

from __future__ import annotations

import pytest

import paceline
from paceline import inst, req
from paceline.cost import Affine
from paceline.policies import vllm
from paceline.policy import Policy, pick


@pytest.mark.parametrize(("first_s", "second_s", "migrations"), [(1.0, 0.1, 1), (0.1, 1.0, 0)])
def test_the_predicted_prefill_is_that_of_the_picked_instance(
    first_s: float, second_s: float, migrations: int
) -> None:
    instances = [
        paceline.Instance(cost=Affine(step_s=step_s), num_blocks=100) for step_s in (first_s, second_s)
    ]
    trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[8], output_tokens=[5])
    policy = Policy(
        name="to the fast one",
        scheduler=vllm().scheduler,
        on_arrival=pick(min=inst.index),
        on_prefilled=pick(max=inst.index).unless(req.prefill_time > 0.5),
    )
    result = paceline.replay(trace, paceline.Cluster(instances), policy)
    assert result.requests["migrations"].to_list() == [migrations]
