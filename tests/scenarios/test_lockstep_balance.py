"""Prompts that wait for those of the other instances in lockstep: first tokens, worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from differential import wire
from differential.wire import cluster, const, field, instance, op
from paceline import _native
from paceline.deployment import Balance, Cluster, Instance
from paceline.errors import ConfigError
from paceline.testing.reference.policy_sim import TraceRequest, replay

#: (arrival, prompt, output) of each request; a step takes 10 ticks, and requests go to the instances in turn.
Requests = list[tuple[int, int, int]]
BUSY: Requests = [(0, 4, 30), (0, 4, 30)]
NO_SHARE = {"shared": {"at": [1], "ticks": [0]}, "padded": 0}


def first_tokens(
    requests: Requests,
    balance: Balance | None,
    *,
    ahead: bool = False,
    seats: int = 9,
    blocks: int = 1000,
    instances: int = 2,
) -> list[int]:
    """Return when each request has its first token: the engine's moments, which are the reference's."""
    one = instance(blocks, step=10, budget=20, seats=seats, chunked=False, allocation="chunk_if_output_fits")
    one["scheduler"] |= {"order": {"kind": "arrival"}, "victim": "latest", "schedule_ahead": ahead}
    group = {**NO_SHARE, "members": list(range(instances))}
    lockstep: list[dict[str, Any]] = [group if balance is None else {**group, "balance": balance.to_wire()}]
    config = {**cluster(*instances * [one]), "lockstep": lockstep}
    rows = [TraceRequest(*request) for request in requests]
    theirs = [request.token_times[0] for request in replay(config, rows).requests]
    ours = _native.run(
        config["instances"], wire.columns(rows), routing=config["routing"], lockstep=lockstep, leap=True
    )
    assert ours.columns["first_token"].tolist() == theirs
    return theirs


def test_a_prompt_waits_until_the_other_instance_has_one() -> None:
    """Both instances decode from 10 on. The prompt of 15 waits for that of 35, and both run at 40."""
    requests = [*BUSY, (15, 4, 2), (35, 4, 2)]
    assert first_tokens(requests, None) == [10, 10, 30, 50]
    assert first_tokens(requests, Balance(timeout_steps=99)) == [10, 10, 50, 50]


def test_a_step_lets_prompts_pass_after_so_many_without_a_prompt_on_each_instance() -> None:
    """The steps from 10 on count: the fifth is that of 50. From then on they are counted anew."""
    requests = [*BUSY, (15, 4, 2), (75, 4, 2)]
    assert first_tokens(requests, Balance(timeout_steps=5)) == [10, 10, 60, 110]


def test_prompts_wait_on_for_others_to_gather() -> None:
    """From 40 on both have a prompt: two steps hold them back."""
    requests = [*BUSY, (15, 4, 2), (35, 4, 2), (45, 4, 2)]
    assert first_tokens(requests, Balance(timeout_steps=99, gather_steps=2)) == [10, 10, 70, 70, 70]


def test_an_instance_with_prompts_alone_waits_for_no_other() -> None:
    """Instance 0 has finished at 20, and gets a prompt at 35 while the other one decodes."""
    balance = Balance(timeout_steps=99, gather_steps=9)
    assert first_tokens([(0, 4, 2), (0, 4, 30), (35, 4, 2)], balance) == [10, 10, 50]


def test_an_instance_without_requests_waits_with_the_others() -> None:
    """Instance 1 has finished at 20: it has no prompt, and is as busy as with decodes."""
    requests = [(0, 4, 30), (0, 4, 2), (15, 4, 2), (55, 4, 2)]
    assert first_tokens(requests, Balance(timeout_steps=99)) == [10, 10, 70, 70]


def test_a_prompt_that_does_not_fit_is_none() -> None:
    """One seat is taken on each instance: without a second one the prompts are admitted as it is free."""
    requests = [(0, 4, 6), (0, 4, 9), (15, 4, 2), (15, 4, 2)]
    balance = Balance(timeout_steps=99)
    assert first_tokens(requests, balance) == [10, 10, 30, 30]
    # Instance 0 has a free seat at 60, and then no decode: its prompt waits for no other.
    assert first_tokens(requests, balance, seats=1) == [10, 10, 70, 100]
    # The 10 and 13 tokens of the first two leave too few of 13 blocks for 6 tokens until they have ended.
    assert first_tokens(requests, balance, blocks=13) == [10, 10, 70, 100]


def test_a_step_decided_ahead_holds_back_what_it_knows() -> None:
    """The step at 20 is decided at 10, so that it does not know of 15; the one at 50 knows of 35."""
    requests = [*BUSY, (15, 4, 2), (35, 4, 2)]
    assert first_tokens(requests, Balance(timeout_steps=99), ahead=True) == [10, 10, 60, 60]


def test_one_instance_holds_nothing_back_but_to_gather() -> None:
    requests = [(0, 4, 30), (15, 4, 2)]
    assert first_tokens(requests, Balance(timeout_steps=9), instances=1) == [10, 30]
    assert first_tokens(requests, Balance(timeout_steps=9, gather_steps=3), instances=1) == [10, 60]


def _first_of(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"rule": "first_of", "rules": list(rules)}


def test_a_request_whose_kv_has_come_is_admitted_while_prompts_wait() -> None:
    """Instance 2 computes the long prompt and hands it over to instance 0, in a group with instance 1.

    Its KV has come at 20, and it runs in the steps of 20 and 30. The prompt that is queued on instance 0 at
    15 waits meanwhile, until instance 1 has one, too, at 45.
    """
    one = instance(step=10, budget=20, seats=9, chunked=False, allocation="chunk_if_output_fits")
    one["scheduler"] |= {"order": {"kind": "arrival"}, "victim": "latest"}
    is_long = op("ge", field("req.prompt_tokens"), const(10))
    short, prefill, decode = ({"rule": "round_robin", "within": roles} for roles in ([0, 1], [2], [0]))
    config = {
        **cluster(one, one, one),
        "roles": [0, 1, 2],
        "lockstep": [{**NO_SHARE, "members": [0, 1], "balance": Balance(timeout_steps=99).to_wire()}],
        "handover": {"most_transfers": None, "most_held": None, "lease": None},
        "routing": {
            "on_arrival": _first_of({"rule": "when", "of": prefill, "when": is_long}, short),
            "on_prefilled": _first_of(
                {"rule": "stay", "when": op("lt", field("req.prompt_tokens"), const(10))}, decode
            ),
            "on_answering": None,
            "every": [],
        },
    }
    requests = [*BUSY, (10, 12, 3), (15, 4, 2), (45, 4, 2)]
    rows = [TraceRequest(*request) for request in requests]
    theirs = [request.token_times for request in replay(config, rows).requests]
    assert theirs[2:] == [[20, 30, 40], [60, 70], [60, 70]]
    ours = _native.run(
        config.pop("instances"), wire.columns(rows), routing=config.pop("routing"), leap=True, **config
    )
    assert ours.columns["first_token"].tolist() == [times[0] for times in theirs]
    assert ours.columns["finish"].tolist() == [times[-1] for times in theirs]


def test_steps_out_of_range_and_a_cluster_without_lockstep_are_refused() -> None:
    with pytest.raises(ConfigError, match="timeout_steps of a Balance must be 1 to"):
        Balance(timeout_steps=0)
    with pytest.raises(ConfigError, match="balance of a Cluster must be None unless"):
        Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")], balance=Balance(timeout_steps=9))


def test_prompts_that_are_cut_are_refused() -> None:
    one = instance(step=10)
    one["scheduler"]["order"] = {"kind": "arrival"}
    lockstep = [{**NO_SHARE, "members": [0], "balance": Balance(timeout_steps=9).to_wire()}]
    with pytest.raises(ConfigError, match=r"must not hold prompts back .*\(lockstep.balance\)"):
        _native.run([one], wire.columns([TraceRequest(0, 1, 1)]), routing="round_robin", lockstep=lockstep)
