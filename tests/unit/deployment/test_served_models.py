"""Clusters of several models: which instances a request may go to, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

import paceline
from paceline import Affine, Cluster, ConfigError, Instance, Policy, Result, Trace, inst
from paceline.policy import first_of, hold, pick

A_SECOND = Affine(step_s=1.0)


def serving(name: str | None, *, blocks: int = 1000, **fields: Any) -> Instance:
    return Instance(cost=A_SECOND, num_blocks=blocks, served_model_name=name, **fields)


def asking(*models: str | None, arrival: list[float] | None = None, prompt: int = 100) -> Trace:
    count = len(models)
    return Trace.from_columns(
        arrival=arrival or [0.0] * count,
        prompt_tokens=[prompt] * count,
        output_tokens=[1] * count,
        model=list(models),
    )


def replayed(trace: Trace, *instances: Instance, **policy: Any) -> Result:
    return paceline.replay(trace, Cluster(list(instances)), Policy(name="some", **policy))


def places(result: Result) -> list[int | None]:
    found: list[int | None] = result.requests["instance"].to_list()
    return found


def test_turns_pass_over_instances_of_other_models() -> None:
    trace = asking("b", "a", "b", "b", None, arrival=[0.0, 0.1, 0.2, 0.3, 0.4])
    # After instance 1 comes 2, which serves b; a is served by 0 alone; then 1, 2, and 0 again.
    found = replayed(trace, serving("a"), serving("b"), serving("b"), on_arrival="round_robin")
    assert places(found) == [1, 0, 1, 2, 0]


@pytest.mark.parametrize(
    "rule",
    ["fewest_requests", "fewest_tokens", "round_robin", pick(min=inst.requests), pick(max=inst.free_blocks)],
)
def test_any_rule_keeps_to_the_instances_of_the_model(rule: Any) -> None:
    trace = asking("a", "a", "a", "b")
    assert places(replayed(trace, serving("b"), serving("a"), on_arrival=rule)) == [1, 1, 1, 0]


def test_an_instance_without_a_name_serves_all_and_a_request_without_one_goes_anywhere() -> None:
    trace = asking("a", "x", None, arrival=[0.0, 0.1, 0.2])
    assert places(replayed(trace, serving("b"), serving(None), on_arrival="round_robin")) == [1, 1, 0]


def test_a_request_of_a_model_that_no_instance_serves_is_rejected_and_counted() -> None:
    found = replayed(asking("a", "x", "x"), serving("a"), on_arrival="round_robin")
    assert places(found) == [0, None, None]
    reason = "no instance serves the model"
    assert found.requests["reason"].to_list() == [None, reason, reason]
    assert found.totals().rejected_by_reason == {reason: 2}


def test_the_reason_is_that_of_an_instance_which_serves_the_model() -> None:
    """Of 3,000 tokens, 100 blocks of 16 hold 1,600: the model is served, by an instance that is too small."""
    found = replayed(
        asking("a", prompt=3000), serving("b"), serving("a", blocks=101), on_arrival="round_robin"
    )
    assert found.requests["reason"].to_list() == ["KV of the whole sequence exceeds the instance's blocks"]


def test_a_held_request_lets_one_of_another_model_pass() -> None:
    """An instance takes one request at a time: the second request for a waits, the one for b does not."""
    rule = first_of(pick(min=inst.requests, where=inst.requests < 1), hold())
    found = replayed(asking("a", "a", "b"), serving("a"), serving("b"), on_arrival=rule)
    assert places(found) == [0, 0, 1]
    assert found.requests["first_token"].to_list() == [1.0, 2.0, 1.0]


def test_without_names_the_column_is_kept_and_decides_nothing() -> None:
    found = replayed(asking("a", "b"), serving(None), on_arrival="round_robin")
    assert (places(found), found.requests["model"].to_list()) == ([0, 0], ["a", "b"])


def test_a_python_function_must_give_an_instance_of_the_model() -> None:
    with pytest.raises(ConfigError, match="can hold the request, gave 0"):
        replayed(asking("b"), serving("a"), serving("b"), on_arrival=lambda req, instances: 0)


def test_kv_moves_only_between_instances_of_one_model() -> None:
    """Prompts are computed on 0 and 2, and decoded on 1 and 3; models a and b have other KV layouts."""
    small, large = ({"model": name, "gpu": "h100-sxm"} for name in ("llama-3.1-8b", "qwen3-8b"))
    fleet = [
        Instance(**fields, served_model_name=name, cost=A_SECOND)
        for name, fields in (("a", small), ("b", large), ("a", small), ("b", large))
    ]
    trace = Trace.from_columns(
        arrival=[0.0, 0.0], prompt_tokens=[100, 100], output_tokens=[3, 3], model=["a", "b"]
    )
    moves = {"on_arrival": pick(min=inst.index), "on_prefilled": pick(max=inst.index)}
    found = replayed(trace, *fleet, **moves)
    assert (places(found), found.requests["last_instance"].to_list()) == ([0, 1], [2, 3])
    plain = [Instance(**fields, cost=A_SECOND) for fields in (small, large)]
    with pytest.raises(ConfigError, match="both must have the same model"):
        replayed(trace, *plain, **moves)


def test_a_name_is_not_empty_and_is_written_and_read() -> None:
    with pytest.raises(ConfigError, match="served_model_name of an Instance must be a name"):
        serving("")
    cluster = Cluster([serving("a"), serving(None)])
    assert Cluster.from_toml(cluster.to_toml()) == cluster
