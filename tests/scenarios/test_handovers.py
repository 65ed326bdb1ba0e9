"""Hand-overs worked by hand: steps of a second, KV whose transfer takes whole seconds.

A token's KV has a million bytes, and a port carries 8 million bits a second: a second for each token.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from differential import wire
from differential.test_policies import decisions
from paceline import _core
from paceline.testing.reference.policy_sim import TraceRequest

SECOND = 10**12
BOTH = pytest.mark.parametrize("leap", [False, True], ids=["step", "leap"])


def instance(blocks: int = 1000, step: int = SECOND) -> wire.Wire:
    return wire.instance(blocks, kv_bytes=10**6, step=step, allocation="chunk")


def replayed(requests: list[TraceRequest], config: wire.Wire, *, leap: bool) -> _core.Outcome:
    config = {**config, "leap": leap, "record_decisions": True}
    return _core.replay(msgspec.json.encode(config), wire.columns(requests), None)


def disaggregated(decode: str, *instances: wire.Wire, decodes: int = 2, **more: Any) -> wire.Wire:
    """Prefill on the instances of pool 0, and decode on the others, which are chosen by a field."""
    roles = [0] * (len(instances) - decodes) + [1] * decodes
    return wire.cluster(
        *instances,
        on_arrival=wire.pick(wire.field("inst.requests"), within=[0]),
        on_prefilled=wire.pick(wire.field(f"inst.{decode}"), within=[1]),
        roles=roles,
        handover=wire.handover(),
        links=(1e6, 0),
        **more,
    )


AT_ONCE = (
    "requests",
    "waiting",
    "outstanding_tokens",
    "incoming_requests",
    "incoming_tokens",
    "incoming_blocks",
    "waiting_blocks",
    "decoding_requests",
    "routed_requests",
    "routed_tokens",
)
FROM_ACCEPTANCE = ("kv_tokens", "gpu_kv_tokens", "kv_usage")


@BOTH
@pytest.mark.parametrize(
    "field", ["requests", "waiting", "outstanding_tokens", *AT_ONCE[3:6], *FROM_ACCEPTANCE]
)
def test_requests_a_millisecond_apart_go_to_different_idle_instances(field: str, leap: bool) -> None:
    """The first is on the wire for ten seconds when the second is prefilled, a millisecond later."""
    two = [TraceRequest(0, 10, 5), TraceRequest(SECOND // 1000, 10, 5)]
    # One prefill instance for each prompt, so that both prefills end a millisecond apart.
    config = disaggregated(field, *4 * [instance()])
    assert replayed(two, config, leap=leap).columns["last_instance"].tolist() == [2, 3]


@BOTH
@pytest.mark.parametrize("field", AT_ONCE)
def test_requests_a_millisecond_apart_go_to_different_busy_instances(field: str, leap: bool) -> None:
    """Both decode instances run equal steps of 100 s, so that neither accepts before the second is routed."""
    busy = 100 * SECOND
    four = [TraceRequest(0, 10, 5), TraceRequest(0, 10, 5), TraceRequest(50 * SECOND, 10, 5)]
    four.append(TraceRequest(50 * SECOND + SECOND // 1000, 10, 5))
    fleet = [instance(), instance(), instance(step=busy), instance(step=busy)]
    outcome = replayed(four, disaggregated(field, *fleet), leap=leap)
    last = outcome.columns["last_instance"].tolist()
    assert sorted(last[:2]) == sorted(last[2:]) == [2, 3]


@BOTH
def test_a_prompt_in_transfer_for_five_seconds_holds_its_blocks_for_these(leap: bool) -> None:
    """Blocks hold one token, and the prefill instance has five: the second prompt waits for the first's.

    The first is prefilled from 0 to 1 s and transferred until 6 s. Only then is there room for the second.
    """
    two = [TraceRequest(0, 5, 3), TraceRequest(0, 5, 3)]
    config = disaggregated("requests", instance(8), instance(100), decodes=1)
    outcome = replayed(two, config, leap=leap)
    assert outcome.columns["scheduled"].tolist() == [0, 6 * SECOND]
    assert outcome.columns["transfer"][0] == 5 * SECOND
    # Of the eight blocks, five are held as the first step runs, and again as the second does.
    assert [step[-1] for step in decisions(outcome, 0)] == [3, 3]
    assert json.loads(outcome.stats)["instances"][0]["peak_blocks"] == 5


@BOTH
def test_a_second_of_transfer_to_an_idle_receiver_takes_a_second(leap: bool) -> None:
    """An earlier transfer from the same sender waits for a receiver that another sender keeps busy.

    Prompts of 10 tokens take 10 s on the wire. From 1 s on, instance 0 sends one to instance 2.
    Instance 1 has sent none, and at 2 s has one of 10 tokens for instance 2, which waits until 11 s,
    and at 3 s one of a token for the idle instance 3, which does not wait behind it.
    """
    to = wire.op("eq", wire.field("inst.index"), wire.field("req.tenant"))
    config = wire.cluster(
        *4 * [instance()],
        on_arrival=wire.pick(wire.op("ne", wire.field("inst.index"), wire.field("req.priority"))),
        on_prefilled=wire.pick(wire.field("inst.index"), where=to),
        handover=wire.handover(),
        links=(1e6, 0),
    )
    three = [
        TraceRequest(0, 10, 2, 0, tenant=2),
        TraceRequest(SECOND, 10, 2, 1, tenant=2),
        TraceRequest(2 * SECOND, 1, 2, 1, tenant=3),
    ]
    outcome = replayed(three, config, leap=leap)
    assert outcome.columns["instance"].tolist() == [0, 1, 1]
    assert outcome.columns["transfer"][2] == SECOND
    assert outcome.columns["handover_wait"][2] == 0
    # The second one's receiver is busy until 11 s; it is sent from 2 s or later, and takes 10 s.
    assert outcome.columns["transfer"][1] >= (11 - 2 + 10) * SECOND


@BOTH
def test_transfers_that_end_are_no_steps_of_an_instance_without_requests(leap: bool) -> None:
    """Of 1,100 prompts of one step, each is transferred in a second; their instance runs nothing else."""
    requests = [TraceRequest(0, 1, 2)] * 1_100
    one = wire.instance(2_000, kv_bytes=10**6, step=SECOND, allocation="chunk", seats=1_100, budget=1_100)
    outcome = replayed(requests, disaggregated("requests", one, one, decodes=1), leap=leap)
    # The last one is prefilled at 1 s, read by 1,101 s, and has its second token one step later.
    assert outcome.columns["finish"].max() == 1_102 * SECOND


@BOTH
@pytest.mark.parametrize(("blocks", "waits"), [(19, 5), (18, 9)])
def test_an_acceptance_leaves_tokens_for_those_that_were_accepted(
    blocks: int, waits: int, leap: bool
) -> None:
    """Two prompts of 5 tokens, with outputs of 5, end at 1 s. An acceptance leaves 4 tokens for each request.

    The first takes 5 blocks and leaves 14 of 19: for the second 10, its prompt and its output, and 4 for the
    first. The second is sent once the first has been, at 6 s. Of 18 blocks 13 are left. While the first runs,
    the second needs 5 blocks and 4 tokens, and 4 for the first, which leaves 12 or fewer. It ends at 10 s.
    """
    two = [TraceRequest(0, 5, 5), TraceRequest(0, 5, 5)]
    decode = wire.instance(blocks, kv_bytes=10**6, step=SECOND, allocation="chunk", block_tokens=1)
    config = disaggregated("requests", instance(), instance(), decode, decodes=1)
    config["handover"] = wire.handover(reserve={"tokens": 4, "clip": 100})
    outcome = replayed(two, config, leap=leap)
    assert outcome.columns["handover_wait"].tolist() == [0, waits * SECOND]
