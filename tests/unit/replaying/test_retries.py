"""Clients that lose patience and send again: hand-worked timelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline import (
    SLO,
    Cluster,
    Concurrency,
    ConfigError,
    Instance,
    Patience,
    policies,
)
from paceline.policy import Policy, first_of, inst, pick, reject
from paceline.testing import check
from unit.replaying.tenths import ALONE, TENTH, moments, sent


def by(most: int | None = None, **patience: Any) -> Concurrency:
    return Concurrency(most, patience=Patience(**{"jitter": 0.0, "growth": 1, **patience}))


def test_a_request_that_times_out_is_sent_again_after_the_wait() -> None:
    # One runs at a time: the first until 0.3. The second times out at 0.35, and leaves at 0.4 with a token.
    # It is sent again at 0.45, and has both its tokens at 0.65.
    trace = sent(arrival=[0.0, 0.0], output_tokens=[3, 2])
    clients = by(timeout_s=0.35, retries=1, backoff_s=0.1)
    result = paceline.replay(trace, TENTH, ALONE, clients=clients)
    check(result)
    assert result.requests["status"].to_list() == ["finished", "finished"]
    assert result.requests["sent_again"].to_list() == [0, 1]
    assert result.requests["wasted_tokens"].to_list() == [0, 1]
    assert (moments(result, "first_sent"), moments(result, "arrival")) == ([0.0, 0.0], [0.0, 0.45])
    assert (moments(result, "scheduled"), moments(result, "finish")) == ([0.0, 0.45], [0.3, 0.65])
    assert (moments(result, "ttft"), moments(result, "cancelled_at")) == ([0.1, 0.1], [None, None])
    instance = result.stats.instances[0]
    assert (instance.finished, instance.cancelled) == (2, 1)


def test_waits_grow_up_to_the_longest() -> None:
    # It is rejected each time: at 0, 0.1, 0.3, 0.6 and 0.9.
    policy = Policy(name="none", on_arrival=reject())
    clients = by(retries=4, backoff_s=0.1, growth=2, longest_s=0.3)
    result = paceline.replay(sent(arrival=[0.0]), TENTH, policy, clients=clients)
    check(result)
    assert (moments(result, "arrival"), result.requests["sent_again"].to_list()) == ([0.9], [4])
    assert result.requests["status"].to_list() == ["rejected"]


def test_a_request_is_sent_again_until_there_is_room() -> None:
    # A router rejects what would be the second request. The first ends at 0.3; it is asked at 0, 0.2 and 0.4.
    policy = Policy(name="one", on_arrival=first_of(pick(min=inst.index, where=inst.requests < 1), reject()))
    trace = sent(arrival=[0.0, 0.0], output_tokens=[3, 1])
    result = paceline.replay(trace, TENTH, policy, clients=by(retries=5, backoff_s=0.2))
    check(result)
    assert result.requests["status"].to_list() == ["finished", "finished"]
    assert result.requests["sent_again"].to_list() == [0, 2]
    assert (moments(result, "arrival"), moments(result, "ttft")) == ([0.0, 0.4], [0.1, 0.1])


def test_what_no_instance_could_serve_is_not_sent_again() -> None:
    trace = sent(arrival=[0.0], prompt_tokens=[100_000])
    result = paceline.replay(trace, TENTH, clients=by(retries=5, backoff_s=0.2))
    check(result)
    assert result.requests.select("status", "sent_again").row(0) == ("rejected", 0)


def test_a_client_that_goes_away_does_not_send_again() -> None:
    trace = sent(arrival=[0.0], output_tokens=[9], cancel_after=[0.25])
    result = paceline.replay(trace, TENTH, clients=by(timeout_s=0.25, retries=5, backoff_s=0.2))
    check(result)
    assert result.requests.select("status", "sent_again").row(0) == ("cancelled", 0)


def test_a_request_that_is_sent_again_keeps_its_place_in_flight_and_its_turns_wait() -> None:
    # One in flight. The first is sent at 0, and again at 0.45: it times out both times, and its place is free
    # at 0.7. Its next turn is never sent.
    trace = sent(
        arrival=[0.0, 0.0, 0.0],
        output_tokens=[3, 1, 1],
        session=["a", "a", "b"],
        think_time=[None, 0.5, None],
    )
    clients = by(1, timeout_s=0.25, retries=1, backoff_s=0.2)
    result = paceline.replay(trace, TENTH, clients=clients)
    check(result)
    assert result.requests["status"].to_list() == ["cancelled", "not_arrived", "finished"]
    assert moments(result, "arrival")[2] == 0.7
    # The step that runs the first until 0.75 has begun.
    assert moments(result, "scheduled")[2] == 0.75


def test_a_prompt_that_is_sent_again_finds_its_own_blocks() -> None:
    # Of 40 tokens, 2 blocks of 16 were computed before it timed out.
    trace = sent(arrival=[0.0], prompt_tokens=[40], output_tokens=[9])
    policy = policies.vllm(prefix_caching=True)
    result = paceline.replay(trace, TENTH, policy, clients=by(timeout_s=0.35, retries=1, backoff_s=0.5))
    check(result)
    assert result.requests.select("sent_again", "cached_tokens").row(0) == (1, 32)


def test_objectives_are_missed_by_those_that_never_end_well() -> None:
    trace = sent(arrival=[0.0] * 4, output_tokens=[1, 1, 1, 99])
    result = paceline.replay(trace, TENTH, clients=by(timeout_s=1.0, retries=2, backoff_s=0.0))
    check(result)
    assert result.attainment(SLO(ttft=1.0)) == 0.75
    assert (result.totals().cancelled, result.totals().sent_again) == (1, 2)


def test_shares_of_waits_are_drawn_from_the_seed() -> None:
    policy = Policy(name="none", on_arrival=reject())
    trace = sent(arrival=[0.0] * 50)

    def sent_again(seed: int) -> list[float | None]:
        clients = by(retries=1, backoff_s=1.0, jitter=0.5, seed=seed)
        return moments(paceline.replay(trace, TENTH, policy, clients=clients), "arrival")

    first = sent_again(1)
    assert first == sent_again(1) != sent_again(2)
    assert all(one is not None and 0.5 <= one <= 1.0 for one in first)
    assert len(set(first)) == 50


@pytest.mark.parametrize("leap", [True, False])
def test_steps_one_by_one_give_the_same(leap: bool) -> None:
    trace = paceline.synthesize("sharegpt", requests=300, rate=60.0, seed=3)
    cluster = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm", num_blocks=900, max_model_len="auto")])
    clients = Concurrency(64, patience=Patience(timeout_s=6.0, retries=2, backoff_s=0.5))
    result = paceline.replay(trace, cluster, clients=clients, leap=leap)
    check(result)
    totals = result.totals()
    assert totals.sent_again > 0
    assert totals.requests == totals.finished + totals.cancelled
    other = paceline.replay(trace, cluster, clients=clients, leap=not leap)
    assert result.requests.equals(other.requests)


def test_a_saved_result_and_a_run_keep_them(tmp_path: Path) -> None:
    from paceline.runs import Recipe, Run, Settings

    clients = Concurrency(8, patience=Patience(timeout_s=2.0, retries=1))
    trace = paceline.synthesize("azure-conv", requests=20, rate=20.0, seed=1)
    cluster = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    result = paceline.replay(trace, cluster, clients=clients)
    result.save(tmp_path / "result")
    again = paceline.load_result(tmp_path / "result")
    assert again.requests.equals(result.requests)
    check(again)
    run = Run(
        trace=Recipe(preset="azure-conv", requests=20, seed=1),
        cluster=cluster,
        settings=Settings(clients=clients),
    )
    assert Run.from_toml(run.to_toml()).settings.clients == clients


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "a timeout_s, retries, or both"),
        ({"timeout_s": -1.0}, "timeout_s of a Patience must be 0 or more seconds"),
        ({"retries": -1}, "retries of a Patience"),
        ({"retries": 1, "growth": 0}, "growth of a Patience"),
        ({"retries": 1, "jitter": 1.5}, "jitter of a Patience must be from 0 to 1"),
    ],
)
def test_what_has_no_meaning_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Patience(**given)


def test_clients_have_a_limit_or_patience() -> None:
    with pytest.raises(ConfigError, match="a limit, most=64, or a patience"):
        Concurrency()
    with pytest.raises(ConfigError, match="must be left out of a Concurrency without a limit"):
        Concurrency(gap_s=1.0, patience=Patience(retries=1))
