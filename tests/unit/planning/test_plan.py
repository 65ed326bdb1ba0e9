"""`paceline.plan` against closed forms and brute force."""

from __future__ import annotations

import functools
import json
import math
from typing import Any

import numpy as np
import pytest

import paceline
from paceline import SLO, Affine, Candidates, Cluster, Instance, Policy, Trace, inst, policies
from paceline.errors import ConfigError, FitError
from paceline.planning import Plan
from paceline.policy import Pools, pick

SERVICE = 0.5
SERVER = Instance(cost=Affine(step_s=SERVICE, token_s=0.0, kv_token_s=0.0), num_blocks=1001)
ONE_AT_A_TIME = policies.vllm(max_num_seqs=1)
H100 = Instance(model="llama-3.1-8b", gpu="h100-sxm")
TWO_H100 = Instance(model="llama-3.1-8b", gpu="h100-sxm", tensor_parallel=2)


def regular(requests: int, rate: float) -> Trace:
    return Trace.from_columns(
        arrival=[index / rate for index in range(requests)],
        prompt_tokens=[1] * requests,
        output_tokens=[1] * requests,
    )


def mixed(seed: int = 0, requests: int = 300) -> Trace:
    """Return requests at 30 per second with long prompts and some output."""
    draw = np.random.default_rng(seed)
    return Trace.from_columns(
        arrival=np.cumsum(draw.exponential(1 / 30, requests)),
        prompt_tokens=draw.integers(500, 4000, requests),
        output_tokens=draw.integers(5, 60, requests),
    )


def divided(prefill: int, decode: int) -> Policy:
    """Return a policy with a pool for prompts and one for outputs."""
    return Policy(
        name="divided",
        scheduler=policies.vllm().scheduler,
        pools=Pools(prefill=prefill, decode=decode),
        on_arrival=pick(min=inst.outstanding_tokens, within="prefill"),
        on_prefilled=pick(min=inst.kv_tokens, within="decode"),
    )


@pytest.mark.parametrize(("rate", "servers"), [(0.5, 1), (2.0, 1), (2.1, 2), (8.0, 4), (9.9, 5), (37.0, 19)])
def test_servers_with_regular_arrivals_need_rate_times_service(rate: float, servers: int) -> None:
    # Without a queue the latency is the service time; n servers keep it so up to n / s requests per second.
    assert servers == math.ceil(rate * SERVICE)
    found = paceline.plan(regular(400, rate), SERVER, ONE_AT_A_TIME, SLO(ttft=SERVICE), 1.0)
    assert found.best is not None
    assert (found.best["instances"], found.best["gpus"]) == (servers, servers)
    assert (found.best["attainment"], found.best["margin"]) == (1.0, 0.0)
    fails = found.evaluated.filter(~found.evaluated["passes"])["instances"].to_list()
    assert [number for number in (servers - 2, servers - 1) if number > 0] == [
        number for number in fails if number >= servers - 2
    ]
    assert "split" not in found.table.columns
    assert "price_per_hour" not in found.table.columns


@pytest.mark.parametrize("target", [0.6, 0.95])
def test_the_fewest_of_all_splits_are_those_of_brute_force(target: float) -> None:
    trace, slo = mixed(), SLO(ttft=0.4, tpot=0.012)
    found = paceline.plan(trace, H100, divided, slo, target)
    assert found.best is not None
    fewest, split = found.best["instances"], found.best["split"]
    brute = {
        (prefill, number - prefill): paceline.replay(
            trace, Cluster(number * [H100]), divided(prefill, number - prefill)
        ).attainment(slo)
        for number in range(2, fewest + 1)
        for prefill in range(1, number)
    }
    passing = {each: share for each, share in brute.items() if share >= target}
    assert {sum(each) for each in passing} == {fewest}
    best = max(passing.values())
    assert found.best["attainment"] == best
    assert passing[tuple(map(int, split.split(":")))] == best  # type: ignore[index]
    assert found.pools == ("prefill", "decode")
    rows = {
        tuple(map(int, each.split(":"))): share
        for each, share in found.evaluated.select("split", "attainment").rows()
    }
    assert {each: share for each, share in rows.items() if sum(each) <= fewest}.items() <= brute.items()
    assert set(rows) >= {each for each in brute if sum(each) >= fewest - 2}


def test_kinds_are_rows_and_the_cheapest_is_first() -> None:
    slo = SLO(ttft=0.4, tpot=0.012)
    by_gpus = paceline.plan(mixed(), [H100, TWO_H100], None, slo)
    assert by_gpus.table["gpus"].is_sorted()
    kinds = {"h100-sxm": (H100, 1), "h100-sxm tp=2": (TWO_H100, 2)}
    assert set(by_gpus.table["kind"]) == set(kinds)
    for row in by_gpus.table.rows(named=True):
        instance, gpus = kinds[row["kind"]]
        alone = paceline.plan(mixed(), instance, None, slo).best
        assert alone is not None
        assert (row["instances"], row["gpus"]) == (alone["instances"], gpus * alone["instances"])
    a100 = Instance(model="llama-3.1-8b", gpu="a100-80gb")
    both = Candidates({"new": H100, "old": a100}, prices={"h100-sxm": 5.0, "a100-80gb": 0.0})
    # An A100 reads 16 GB of weights in 8 ms at best, and the rest of a step takes it above 12 ms.
    free = paceline.plan(mixed(), both, None, SLO(ttft=0.4, tpot=0.03))
    assert free.table["kind"].to_list() == ["old", "new"]
    assert free.table["price_per_hour"].to_list() == [0.0, 5.0 * free.table["gpus"][1]]


def test_where_no_number_passes_the_best_replayed_is_shown() -> None:
    found = paceline.plan(regular(100, 8.0), Candidates(SERVER, most=3), ONE_AT_A_TIME, SLO(ttft=SERVICE))
    assert found.best is None
    row = found.table.row(0, named=True)
    # Of equal margins the most instances.
    assert (row["instances"], row["passes"]) == (3, False)
    assert row["margin"] == max(found.evaluated["margin"])
    assert repr(found) == "Plan(none passes with 3 GPUs at 8 requests/s)"


def test_the_rate_can_be_given_and_is_said() -> None:
    slo = SLO(ttft=SERVICE)
    by_rate = paceline.plan(regular(100, 1.0), SERVER, ONE_AT_A_TIME, slo, rate=6.0)
    by_scale = paceline.plan(regular(100, 1.0), SERVER, ONE_AT_A_TIME, slo, scale=6.0)
    assert by_rate.best is not None
    assert by_rate.best["instances"] == 3
    assert by_rate.rate == by_scale.rate == pytest.approx(6.0)
    assert by_rate.scale == pytest.approx(6.0)
    assert by_rate.evaluated.equals(by_scale.evaluated)


def test_the_table_does_not_depend_on_the_number_of_threads() -> None:
    def found(workers: int) -> Plan:
        slo = SLO(ttft=0.4, tpot=0.012)
        return paceline.plan(mixed(requests=60), [H100, TWO_H100], divided, slo, workers=workers)

    one = found(1)
    assert found(2) == one
    assert found(5) == one


def test_the_policy_may_be_a_function_of_the_number_of_instances() -> None:
    made: list[int] = []

    def by_number(instances: int) -> Policy:
        made.append(instances)
        return ONE_AT_A_TIME

    found = paceline.plan(regular(100, 4.0), SERVER, by_number, SLO(ttft=SERVICE))
    assert sorted(made) == found.evaluated["instances"].sort().to_list()
    assert found.pools == ()
    assert "split" not in found.table.columns


def test_the_parameters_that_are_searched_are_the_required_ones_or_those_named() -> None:
    trace, slo = mixed(requests=60), SLO(ttft=5.0)

    def optional(*, seed: int = 0, prefill: int = 1, decode: int = 1) -> Policy:
        assert seed == 0
        return divided(prefill, decode)

    def three(first: int, second: int, third: int) -> Policy:
        return Policy(
            name="three",
            pools=Pools(a=first, b=second, c=third),
            on_arrival=pick(min=inst.kv_tokens, within="a"),
        )

    assert paceline.plan(trace, H100, optional, slo).pools == ("prefill", "decode")
    assert paceline.plan(trace, H100, three, slo).pools == ("first", "second", "third")
    assert paceline.plan(trace, H100, three, slo).table["split"][0].count(":") == 2
    partly = functools.partial(three, third=1)
    fixed = paceline.plan(trace, H100, lambda **sizes: divided(**sizes), slo, split=("prefill", "decode"))
    assert fixed.pools == ("prefill", "decode")
    with pytest.raises(paceline.PolicyError, match="needs a cluster of"):
        # The third pool has one instance of its own, beyond those that are divided.
        paceline.plan(trace, H100, partly, slo, split=("first", "second"))
    assert paceline.plan(trace, H100, lambda: policies.vllm(), slo).pools == ()


def test_the_document_is_json_with_nothing_left_out() -> None:
    found = paceline.plan(mixed(requests=60), H100, divided, SLO(ttft=0.4))
    document = json.loads(found.to_json())
    assert document["table"] == found.table.rows(named=True)
    assert len(document["evaluated"]) == found.evaluated.height
    assert document["best"] == found.best
    assert document["pools"] == ["prefill", "decode"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"slo": None}, "slo of plan() must be given"),
        (
            {"candidates": lambda: Candidates(H100, most=0)},
            "most of Candidates must be a whole number of at least 1, was 0",
        ),
        ({"candidates": list}, "instances of plan() must be at least one Instance, were none"),
        (
            {"candidates": lambda: Candidates(TWO_H100, most=1)},
            "most must be at least 2 GPUs, which 1 of h100-sxm tp=2 have, was 1",
        ),
        (
            {"policy": divided, "candidates": lambda: Candidates(H100, most=1)},
            "most must be at least 2 GPUs, which 2 of h100-sxm have, was 1",
        ),
        ({"policy": lambda prefill, decode: "vllm"}, "policy of plan() must return a Policy, was 'vllm'"),
        ({"split": ("prefill",)}, "split needs a policy that is a function of it"),
        (
            {"policy": divided, "split": ("prefill", "encode")},
            "split must name parameters of the policy, each once (prefill, decode)",
        ),
        (
            {"candidates": lambda: Candidates(H100, prices={"a100-80gb": 1.0})},
            "prices must have the GPU of every kind: h100-sxm is on h100-sxm",
        ),
        (
            {"candidates": lambda: Candidates(H100, prices={"h100-sxm": -1.0})},
            "price of h100-sxm must be a finite number, 0 or more, was -1",
        ),
    ],
)
def test_arguments_out_of_range_are_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    usual = {"trace": mixed(requests=20), "candidates": lambda: H100, "slo": SLO(ttft=1.0), **arguments}
    with pytest.raises(ConfigError) as refused:
        paceline.plan(**{**usual, "candidates": usual["candidates"]()})  # type: ignore[arg-type]
    assert message in str(refused.value)


def test_kinds_that_the_model_does_not_fit_are_named_and_left_out() -> None:
    # 131 GiB of weights are half of two GPUs more than of four; steps of 65,536 tokens take the rest of two.
    trace = Trace.from_columns(arrival=[0.0, 1.0], prompt_tokens=[100] * 2, output_tokens=[5] * 2)
    two, four = (
        Instance(model="llama-3.1-70b", gpu="h100-sxm", tensor_parallel=ranks, max_model_len=2_000)
        for ranks in (2, 4)
    )
    wide = policies.vllm(max_num_batched_tokens=65_536)
    found = paceline.plan(trace, {"four": four, "two": two}, wide, SLO(ttft=9.0))
    assert found.table["kind"].to_list() == ["four"]
    assert list(found.left_out) == ["two"]
    assert "llama-3.1-70b does not fit on 2 x h100-sxm" in found.left_out["two"]
    assert found.to_dict()["left_out"] == found.left_out
    with pytest.raises(FitError, match=r"one: llama.* does not fit .*; two: llama.* does not fit"):
        paceline.plan(trace, {"one": two, "two": two}, wide, SLO(ttft=9.0))
