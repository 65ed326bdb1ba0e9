"""Policies of the catalog that route, in the engine and in the reference."""

from __future__ import annotations

from itertools import accumulate

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from differential import wire
from paceline import _core, policies
from paceline.policy import Policy
from paceline.testing.reference.policy_sim import TraceRequest, replay

TICKS_PER_S = 1e3
POOLS = {"prefill": 2, "decode": 2}
ROUTED: dict[str, Policy] = {
    "autoscaled": policies.autoscaled(serving=2, off=2, period_s=0.05, start_s=0.1),
    "dynamo_disaggregated": policies.dynamo_disaggregated(**POOLS, local_below_tokens=12, block_tokens=4),
    "dynamo_planner": policies.dynamo_planner(
        step_s=(0.01, 1e-4, 1e-5), ttft_s=0.05, itl_s=0.02, serving=2, off=2, period_s=0.05, start_s=0.1
    ),
    "hpa": policies.hpa(metric="requests", target=2.5, serving=2, off=2, period_s=0.05, start_s=0.1),
    "llm_d_disaggregated": policies.llm_d_disaggregated(**POOLS, non_cached_tokens=5),
    "llumnix": policies.llumnix(metric="kv_blocks_ratio", scheduler=policies.vllm().scheduler_of(0)),
    "llumnix_adaptive": policies.llumnix_adaptive(request_s=0.01, period_s=0.05),
    "mooncake": policies.mooncake(**POOLS, ttft=0.05, tbt=1.0, store_block_tokens=4),
    "power_of_two": policies.power_of_two(seed=3),
    "wva": policies.wva(
        serving=2,
        off=2,
        kv_threshold=0.3,
        queue_threshold=2.0,
        queue_spare=1.0,
        peak_s=(0.06, 0.02),
        period_s=0.05,
        start_s=0.1,
    ),
    "tetri_infer": policies.tetri_infer(**POOLS, bucket_tokens=8, chunk_tokens=8),
    "vllm_balancer": policies.vllm_balancer(clients=2, report_s=0.05),
}


@st.composite
def requests(draw: st.DrawFn) -> list[TraceRequest]:
    """Draw requests that share prefixes."""
    found = []
    shape = st.tuples(st.sampled_from([0, 0, 7, 30, 90]), st.integers(1, 24), st.integers(1, 20))
    shapes = draw(st.lists(shape, min_size=2, max_size=14))
    for at, (_, prompt, output) in zip(accumulate(gap for gap, _, _ in shapes), shapes, strict=True):
        ids = draw(st.lists(st.integers(0, 1), min_size=prompt // 4, max_size=prompt // 4))
        found.append(TraceRequest(at, prompt, output, prefix=tuple(ids)))
    return found


def configuration(policy: Policy, blocks: int) -> wire.Wire:
    """Return the engine's configuration of a policy on four instances, of 10 ms a step."""
    instances = [
        {
            "blocks": blocks,
            "block_tokens": 4,
            "max_model_len": None,
            "kv_bytes_per_token": 0,
            "cost": {"kind": "affine", "step": 10, "token": 1, "kv_token": 0},
            "scheduler": policy.scheduler_of(index).to_wire(
                num_blocks=blocks, defaults=(64, 8), ticks_per_s=TICKS_PER_S
            ),
        }
        for index in range(4)
    ]
    return {
        "instances": instances,
        **policy.to_wire(instances=4, ticks_per_s=TICKS_PER_S),
        "links": None,
        "until": None,
    }


@pytest.mark.parametrize("name", ROUTED)
@settings(max_examples=8)
@given(data=st.data(), blocks=st.sampled_from([20, 200]))
def test_the_engine_decides_as_the_reference_does(name: str, data: st.DataObject, blocks: int) -> None:
    rows = data.draw(requests())
    config = configuration(ROUTED[name], blocks)
    expected = replay(config, rows, prefix_block_tokens=4)
    statuses = [expected.status(row) for row in range(len(rows))]
    for leap in (True, False):
        text = msgspec.json.encode({**config, "leap": leap, "record_decisions": False})
        outcome = _core.replay(text, wire.columns(rows, 4), None)
        for row, status in enumerate(statuses):
            if status != "finished":
                continue
            times = expected.requests[row].token_times
            assert outcome.columns["instance"][row] == expected.instance[row]
            assert (outcome.columns["first_token"][row], outcome.columns["finish"][row]) == (
                times[0],
                times[-1],
            )
