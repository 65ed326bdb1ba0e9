"""The clients of a trace."""

import pickle

import pytest

import paceline
from paceline import Affine, Cluster, Concurrency, ConfigError, Instance, Trace

FOUR = Trace.from_columns(arrival=[0.0] * 4, prompt_tokens=[8] * 4, output_tokens=[1] * 4)
SERVER = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=101)])


def test_a_trace_with_clients_is_another_trace() -> None:
    two = FOUR.by(Concurrency(2))
    assert two != FOUR
    assert two.sha256 not in (FOUR.sha256, FOUR.by(Concurrency(3)).sha256)
    assert two.by(None) == FOUR
    assert two.by(None).sha256 == FOUR.sha256


def test_parts_and_copies_keep_the_clients() -> None:
    two = FOUR.by(Concurrency(2))
    assert pickle.loads(pickle.dumps(two)) == two
    for part in (two.sample(2, seed=1), two.scaled(2.0), two.window(0.0, 1.0)):
        assert part.clients == Concurrency(2)


def test_a_replay_has_the_clients_of_the_trace() -> None:
    by_trace = paceline.replay(FOUR.by(Concurrency(2)), SERVER)
    # Two at a time, 10 ms each.
    assert by_trace.requests["arrival"].to_list() == [0.0, 0.0, 0.01, 0.01]
    assert by_trace.requests.equals(paceline.replay(FOUR, SERVER, clients=Concurrency(2)).requests)


def test_other_clients_than_the_trace_has_are_refused() -> None:
    with pytest.raises(ConfigError, match="clients must be left out where the trace has some"):
        paceline.replay(FOUR.by(Concurrency(2)), SERVER, clients=Concurrency(3))


def test_a_comparison_replays_with_the_clients() -> None:
    found = paceline.compare(
        FOUR.by(Concurrency(1)), SERVER, {"a": paceline.policies.vllm(), "b": paceline.policies.orca()}
    )
    assert found.results["a"][0].requests["arrival"].to_list() == [0.0, 0.01, 0.02, 0.03]
