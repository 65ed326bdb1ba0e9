"""Transfers that overlap with the last step of a prompt, worked by hand.

A token's KV has a million bytes, and a port carries 8 million bits a second: a second for each token.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from differential import wire
from paceline import _core
from paceline.errors import ConfigError
from paceline.testing.reference.policy_sim import TraceRequest, replay

SECOND = 10**12
BOTH = pytest.mark.parametrize("leap", [False, True], ids=["step", "leap"])


def instance(step: int = SECOND, blocks: int = 1000, layers: int = 4, **more: Any) -> wire.Wire:
    return wire.instance(blocks, kv_bytes=10**6, kv_layers=layers, step=step, allocation="chunk", **more)


def apart(*instances: wire.Wire, overlap: str = "layers", **more: Any) -> wire.Wire:
    """Prefill on instance 0, decode on the others: the first with the fewest incoming requests."""
    rule = {
        "on_arrival": wire.pick(wire.field("inst.index"), within=[0]),
        "decode_on_arrival": wire.pick(wire.field("inst.incoming_requests"), within=[1]),
        "links": (1e6, 0),
    }
    roles = [0] + [1] * (len(instances) - 1)
    return wire.cluster(*instances, roles=roles, handover=wire.handover(overlap=overlap), **(rule | more))


def replayed(requests: list[TraceRequest], config: wire.Wire, *, leap: bool) -> _core.Outcome:
    """Replay requests, and check that the reference gives the same times."""
    told = {**config, "leap": leap, "record_decisions": True}
    outcome = _core.replay(msgspec.json.encode(told), wire.columns(requests), None)
    expected = replay(told, requests).requests
    assert outcome.columns["first_token"].tolist() == [one.token_times[0] for one in expected]
    assert outcome.columns["finish"].tolist() == [one.token_times[-1] for one in expected]
    assert outcome.columns["handover_wait"].tolist() == [one.handover_wait for one in expected]
    return outcome


def seconds(ticks: Any) -> list[float]:
    return [each / SECOND for each in ticks]


@BOTH
def test_a_slow_network_starts_with_the_first_layer(leap: bool) -> None:
    """Layers are ready at 0.25, 0.5, 0.75 and 1 s, and take 2.5 s each: the last ends at 10.25 s."""
    one = [TraceRequest(0, 10, 2)]
    outcome = replayed(one, apart(instance(), instance()), leap=leap)
    assert seconds(outcome.columns["first_token"]) == [1]
    assert seconds(outcome.columns["transfer"]) == [9.25]
    assert seconds(outcome.columns["handover_wait"]) == [0]
    assert seconds(outcome.columns["finish"]) == [11.25]
    without = replayed(one, apart(instance(), instance(), overlap="none"), leap=leap)
    assert seconds(without.columns["transfer"]) == [10]


@BOTH
def test_a_fast_network_ends_a_layer_after_the_step(leap: bool) -> None:
    """Layers are ready at 2, 4, 6 and 8 s, and take 1 s each: they are sent from 5 s to 9 s."""
    outcome = replayed([TraceRequest(0, 4, 2)], apart(instance(8 * SECOND), instance()), leap=leap)
    assert seconds(outcome.columns["first_token"]) == [8]
    assert seconds(outcome.columns["transfer"]) == [1]
    [sent] = json.loads(outcome.transfers())
    assert (sent["sent"], sent["first_byte"], sent["delivered"]) == (0, 5 * SECOND, 9 * SECOND)


@pytest.mark.parametrize("layers", [1, 2, 5, 8])
@pytest.mark.parametrize("step", [40, 80, 120, 400])
def test_the_transfer_ends_when_either_the_first_or_the_last_layer_says(layers: int, step: int) -> None:
    """A step of T and a transfer of D in L layers: all is read at max(T + D / L, T / L + D).

    So a transfer delays its request by max(D / L, D - T + T / L), which is D for one layer.
    """
    time, transfer = Fraction(step), Fraction(80)
    outcome = replayed(
        [TraceRequest(0, 80, 2)], apart(instance(step * SECOND, layers=layers), instance()), leap=True
    )
    expected = max(transfer / layers, transfer - time + time / layers)
    assert Fraction(int(outcome.columns["transfer"][0]), SECOND) == expected


@BOTH
def test_kv_of_earlier_chunks_is_sent_with_its_layer_in_the_last_step(leap: bool) -> None:
    """Two steps of four tokens: layers of 2 s each, the first ready at 1.25 s."""
    outcome = replayed([TraceRequest(0, 8, 2)], apart(instance(budget=4), instance()), leap=leap)
    assert seconds(outcome.columns["first_token"]) == [2]
    assert seconds(outcome.columns["transfer"]) == [9.25 - 2]


@BOTH
def test_a_target_that_accepts_late_is_sent_what_is_ready_by_then(leap: bool) -> None:
    """Instance 1 decodes in steps of 100 s when the second prompt ends, at 52 s: it accepts at 103 s.

    The first request is on the wire from 0.25 s to 4.25 s, and there before its target's step could start.
    """
    two = [TraceRequest(0, 1, 3), TraceRequest(51 * SECOND, 4, 2)]
    outcome = replayed(two, apart(instance(), instance(100 * SECOND)), leap=leap)
    first, second = seconds(outcome.columns["transfer"])
    assert first == 0.25
    start = 1.25
    assert second == (start + 100 + 4) - 52
    assert seconds(outcome.columns["handover_wait"])[1] == start + 100 - 52


@BOTH
def test_a_target_that_accepts_within_the_step_delays_nothing(leap: bool) -> None:
    """The second prompt runs from 10 s to 18 s, its first byte is due at 15 s: the target accepts before."""
    two = [TraceRequest(0, 1, 40), TraceRequest(10 * SECOND, 4, 2)]
    fleet = instance(8 * SECOND), instance(3 * SECOND)
    outcome = replayed(two, apart(*fleet), leap=leap)
    assert seconds(outcome.columns["transfer"]) == [0.25, 1]


@BOTH
def test_two_prompts_of_one_step_are_sent_one_after_the_other(leap: bool) -> None:
    """Both are ready as in the case with one; the second is sent behind the first, from 9 s to 13 s."""
    two = [TraceRequest(0, 4, 2), TraceRequest(0, 4, 2)]
    outcome = replayed(two, apart(instance(8 * SECOND), instance()), leap=leap)
    assert seconds(outcome.columns["transfer"]) == [1, 5]
    assert seconds(outcome.columns["handover_wait"]) == [0, 1]


@BOTH
@pytest.mark.parametrize(("overlap", "targets"), [("layers", [1, 2]), ("none", [1, 1])])
def test_an_expected_request_counts_as_incoming(overlap: str, targets: list[int], leap: bool) -> None:
    """The second request arrives while the prompt of the first is computed."""
    two = [TraceRequest(0, 4, 2), TraceRequest(SECOND, 4, 2)]
    config = apart(instance(8 * SECOND), instance(), instance(), overlap=overlap)
    assert replayed(two, config, leap=leap).columns["last_instance"].tolist() == targets


@BOTH
def test_the_target_holds_blocks_from_its_acceptance_on(leap: bool) -> None:
    """Blocks hold a token, and the target has 12. Of two prompts of 7 tokens, it has room for one."""
    two = [TraceRequest(0, 7, 2), TraceRequest(0, 7, 2)]
    outcome = replayed(two, apart(instance(8 * SECOND), instance(blocks=12)), leap=leap)
    # Layers of 1.75 s: the first request is sent until 9.75 s, and decodes until 10.75 s. Then
    # the second one is accepted, and takes 7 s.
    assert seconds(outcome.columns["transfer"]) == [1.75, 10.75 + 7 - 8]
    assert json.loads(outcome.stats)["instances"][1]["peak_blocks"] == 8


@BOTH
def test_a_request_that_ends_with_its_first_token_frees_the_blocks_once_its_kv_has_come(leap: bool) -> None:
    """Nothing knows that its output ends: its KV is sent until 9 s. Then there is room for the other."""
    two = [TraceRequest(0, 4, 1), TraceRequest(0, 4, 2)]
    outcome = replayed(two, apart(instance(8 * SECOND), instance(blocks=8)), leap=leap)
    assert seconds(outcome.columns["finish"]) == [8, 9 + 4 + 1]
    assert outcome.columns["migrations"].tolist() == [0, 1]
    assert json.loads(outcome.stats)["network"]["bytes"] == 8 * 10**6


@BOTH
def test_without_links_the_kv_is_there_as_the_prompt_ends(leap: bool) -> None:
    outcome = replayed([TraceRequest(0, 4, 3)], apart(instance(), instance(), links=None), leap=leap)
    assert seconds(outcome.columns["transfer"]) == [0]
    assert seconds(outcome.columns["finish"]) == [3]


@BOTH
def test_a_replay_that_stops_within_the_step_counts_the_request_once(leap: bool) -> None:
    config = {**apart(instance(8 * SECOND), instance()), "until": 6 * SECOND, "leap": leap}
    config["record_decisions"] = False
    outcome = _core.replay(msgspec.json.encode(config), wire.columns([TraceRequest(0, 4, 3)]), None)
    assert outcome.columns["generated_tokens"].tolist() == [0]
    stats = json.loads(outcome.stats)
    assert [one["finished"] for one in stats["instances"]] == [0, 0]
    assert stats["network"]["media"][0]["busy_ticks"] == SECOND


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"decode_on_arrival": None}, "without routing.decode_on_arrival"),
        ({}, "groups of layers"),
    ],
)
def test_overlap_is_refused_where_it_has_no_meaning(change: dict[str, Any], said: str) -> None:
    config = {**apart(instance(), instance(), **change), "leap": True, "record_decisions": False}
    if not change:
        decodes = {"kind": "decodes", "charged": True, "seated": True, "over_prefills": True}
        layered = {"kind": "layered", "layers": 4, "groups": {"limits": [], "tokens_per_group": 0, "most": 2}}
        for one in config["instances"]:
            fcfs = {"order": {"kind": "arrival"}, "victim": "latest", "allocation": "sequence"}
            one["scheduler"] |= fcfs | {"stages": [decodes, layered]}
    with pytest.raises(ConfigError, match=said):
        _core.replay(msgspec.json.encode(config), wire.columns([TraceRequest(0, 4, 3)]), None)
