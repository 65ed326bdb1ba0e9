"""Instances that step together, in the reference, worked out by hand."""

from __future__ import annotations

from differential.wire import cluster, instance
from paceline.testing.reference.policy_sim import TraceRequest, replay


def test_all_steps_last_as_long_as_the_slowest_and_what_they_share() -> None:
    """A rank's part takes 10 + 1 a token; the shared part takes 2 a token. The first step has 4 and 8 tokens.

    Row 2 arrives at 3 on an instance that idles until all steps have ended.
    """
    parts = [instance(step=10, token=1) for _ in range(3)]
    shared = {"at": [1, 2], "ticks": [2, 4]}
    config = {**cluster(*parts), "lockstep": [{"members": [0, 1, 2], "shared": shared, "padded": 0}]}
    requests = [TraceRequest(0, 4, 2), TraceRequest(0, 8, 1), TraceRequest(3, 1, 1)]
    outcome = replay(config, requests)
    first = 18 + 2 * (4 + 8 + 1)  # the idle instance takes part with one token
    assert outcome.requests[0].token_times[0] == outcome.requests[1].token_times[0] == first
    assert outcome.requests[2].scheduled == first
    second = first + 11 + 2 * 3
    assert outcome.requests[0].token_times[1] == outcome.requests[2].token_times[0] == second


def test_small_steps_are_padded_to_the_one_with_most_tokens() -> None:
    parts = [instance(step=10) for _ in range(2)]
    shared = {"at": [1, 2], "ticks": [2, 4]}
    config = {**cluster(*parts), "lockstep": [{"members": [0, 1], "shared": shared, "padded": 8}]}
    outcome = replay(config, [TraceRequest(0, 8, 1)])
    assert outcome.requests[0].token_times == [10 + 2 * 16]


def test_a_group_goes_on_while_another_is_in_a_step() -> None:
    """Instances 0 and 2 take 10, and 3 for each token of both; instance 1 takes 10, whatever they do."""
    groups = [{"members": [2, 0], "shared": {"at": [1, 2], "ticks": [3, 6]}, "padded": 0, "prompts": 40}]
    config = {**cluster(*3 * [instance(step=10)]), "lockstep": groups}
    requests = [TraceRequest(0, 4, 2), TraceRequest(0, 8, 3), TraceRequest(2, 1, 1)]
    outcome = replay(config, requests)
    # Five tokens would take 25: a step with a prompt takes 40.
    assert outcome.requests[0].token_times == [40, 80]
    assert outcome.requests[1].token_times == [10, 20, 30]
    assert outcome.requests[2].token_times == [80]
