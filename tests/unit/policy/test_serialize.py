"""Policies as TOML: every policy with every option there and back, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline import policies
from paceline.errors import PolicyError
from paceline.policies import (
    authors_chunked,
    authors_orca,
    layered_prefill,
    orca,
    sarathi,
    sglang,
    static,
    vllm,
    vllm_v0,
)
from paceline.policies.layered_prefill import by_tokens
from paceline.policy import Handover, Policy, Scheduler
from paceline.policy.prefix_cache import PrefixCache
from paceline.policy.stages import Admit, Decodes, Gather, Recompute, Running, Swap

SWAP = Swap(cpu_blocks=100, out_s=1e-4, in_s=2e-4, overlapped=True)
POLICIES = [
    authors_chunked(),
    authors_chunked(max_num_batched_tokens=256, max_num_seqs=8, routing="round_robin"),
    authors_orca(),
    authors_orca(max_num_batched_tokens=256, max_num_seqs=8, routing="fewest_tokens"),
    *(layered_prefill(layers=48, groups=groups) for groups in (4, 12, 16, 24)),
    layered_prefill(layers=48, groups=by_tokens(48), max_num_batched_tokens=4096, max_num_seqs=8),
    orca(),
    orca(max_num_seqs=8, routing="round_robin"),
    sarathi(),
    sarathi(chunk_size=256, max_num_seqs=64, watermark=0.05, routing="round_robin"),
    sglang(),
    sglang(schedule_policy="lof", chunked_prefill_size=2048, max_running_requests=7),
    sglang(schedule_policy="lpm", prefix_caching=True, routing="fewest_tokens"),
    static(),
    static(size=3, wait_s=0.0, routing="round_robin"),
    static(size=3, wait_s=1e-6),
    vllm(),
    vllm(version="0.11", policy="priority", prefix_caching=True),
    vllm(max_num_batched_tokens=1, max_num_seqs=1, long_prefill_token_threshold=5, watermark=0.5),
    vllm(reserve_full_prompt=False, routing="round_robin"),
    vllm_v0(),
    vllm_v0(chunked_prefill=True, watermark=0.0),
    vllm_v0(preemption=Recompute(), max_num_batched_tokens=2048, max_num_seqs=8),
    vllm_v0(preemption=SWAP, routing="fewest_tokens"),
    vllm_v0(chunked_prefill=True, preemption=Swap(cpu_blocks=0)),
    Policy(name="score", scheduler=Scheduler(order="score")),
    Policy(name='ünïcode "quoted"\n', scheduler=Scheduler(stages=(Running(), Admit()), refund=False)),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_there_and_back(policy: Policy) -> None:
    text = policy.to_toml()
    again = Policy.from_toml(text)
    assert again == policy
    assert hash(again) == hash(policy)
    assert again.to_toml() == text


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_the_wire_is_the_same_after_the_round_trip(policy: Policy) -> None:
    again = Policy.from_toml(policy.to_toml()).scheduler
    arguments: dict[str, Any] = {"num_blocks": 1000, "defaults": (8192, 1024)}
    assert again.to_wire(**arguments) == policy.scheduler.to_wire(**arguments)


def test_a_policy_written_by_hand() -> None:
    text = """
    name = "mine"
    on_arrival = "round_robin"

    [scheduler]
    max_num_batched_tokens = 2048
    order = "longest_prefix"
    victim = "fewest_generated"
    preemption = {kind = "recompute"}
    prefix_cache = {unknown_first = false}

    [[scheduler.stages]]
    kind = "decodes"
    charged = false

    [[scheduler.stages]]
    kind = "admit"
    chunked = false
    gather = {size = 4, wait_s = 0.5}
    """
    assert Policy.from_toml(text) == Policy(
        name="mine",
        on_arrival="round_robin",
        scheduler=Scheduler(
            max_num_batched_tokens=2048,
            stages=(Decodes(charged=False), Admit(chunked=False, gather=Gather(size=4, wait_s=0.5))),
            order="longest_prefix",
            victim="fewest_generated",
            prefix_cache=PrefixCache(unknown_first=False),
        ),
    )


def test_what_is_left_out_stands_at_its_default() -> None:
    assert Policy.from_toml('name = "plain"') == Policy(name="plain")
    assert Policy.from_toml('name = "plain"\n[scheduler]') == Policy(name="plain")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "TOML"),
        ("", "lacks name"),
        ('name = "a"\nnmae = "b"', "no field 'nmae'.*name"),
        ('name = "a"\non_arrival = "random"', "on_arrival must be one of round_robin.*was 'random'"),
        ('name = "a"\nscheduler = 3', "scheduler must be a table, was 3"),
        ('name = "a"\nscheduler = ["x"]', r"scheduler must be a table, was \['x'\]"),
        ('name = "a"\n[scheduler]\nclasses = "x"', "classes must be tables.*was 'x'"),
        ('name = "a"\n[scheduler]\nclasses = ["x"]', "each of classes must be a table, was 'x'"),
        ('name = "a"\n[scheduler]\nstages = 5', "stages must be tables.*was 5"),
        ('name = "a"\n[scheduler]\nstages = [5]', "each of stages must be a table, was 5"),
        ('name = "a"\n[scheduler]\nstages = [{kind = ["x"]}]', "kind of a stage must be one of"),
        ('name = "a"\n[scheduler.preemption]\nkind = []', "kind of preemption must be one of"),
        ('name = "a"\n[scheduler]\npreemption = []', r"preemption must be a table, was \[\]"),
        ('name = "a"\npools = "x"', "pools must be a table, was 'x'"),
        (
            'name = "a"\nevery = [{seconds = 1, actions = 5}]',
            "actions of every must be a list of strings, was 5",
        ),
        ('name = "a"\n[scheduler]\nmax_seqs = 3', "no field 'max_seqs'"),
        ('name = "a"\n[scheduler]\nmax_num_seqs = 0', "max_num_seqs must be 1 to .*was 0"),
        (
            'name = "a"\n[scheduler]\nstages = [{kind = "dream"}]',
            "kind of a stage must be one of.*was 'dream'",
        ),
        ('name = "a"\n[scheduler]\nstages = [{charged = true}]', "kind of a stage must be one of.*was None"),
        ('name = "a"\n[scheduler]\nstages = [{kind = "decodes", chraged = true}]', "no field 'chraged'"),
        ('name = "a"\n[scheduler]\nstages = [{kind = "layered", layers = 4}]', "lacks groups"),
        (
            'name = "a"\n[scheduler]\nstages = [{kind = "admit", gather = {size = 0, wait_s = 1.0}}]',
            "size of a Gather must be 1 or more requests, was 0",
        ),
        ('name = "a"\n[scheduler.preemption]\nkind = "swap"', "lacks cpu_blocks"),
        ('name = "a"\n[scheduler.prefix_cache]\nsize = 3', "no field 'size'"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=rf"(?s){message}"):
        Policy.from_toml(text)


def test_an_offer_on_arrival_is_written_and_read_and_needs_a_target_that_is_picked_then() -> None:
    early = policies.sglang_disaggregated()
    assert early.handover is not None
    assert (early.handover.offer, early.handover.to_wire()["offer"]) == ("arrival", "arrival")
    assert Policy.from_toml(early.to_toml()) == early
    later = policies.sglang_disaggregated(decode_allocation_policy="prefill_complete")
    assert later.handover is not None
    assert "offer" not in later.handover.to_wire()
    assert "offer" not in later.to_toml()
    with pytest.raises(PolicyError, match="decode_allocation_policy of sglang_disaggregated"):
        policies.sglang_disaggregated(decode_allocation_policy="late")  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="offer of a Handover must be one of"):
        Handover(offer="late")  # type: ignore[arg-type]
    with pytest.raises(
        PolicyError, match="offer of a Handover must be 'prefilled' without decode_on_arrival"
    ):
        replace(policies.disaggregated(), handover=Handover(offer="arrival"))


def test_a_reserve_for_accepted_requests_is_written_and_read() -> None:
    apart = policies.sglang_disaggregated(num_reserved_decode_tokens=64)
    assert apart.handover is not None
    assert apart.handover.to_wire()["reserve"] == {"tokens": 64, "clip": 4096}
    assert Policy.from_toml(apart.to_toml()) == apart
    plain = policies.disaggregated()
    both = [plain, replace(plain, handover=Handover(reserve_tokens=64))]
    assert [one.uses_oracle for one in both] == [False, True], "it reads the lengths of outputs"
    assert "reserve_tokens" not in policies.disaggregated().to_toml()
    with pytest.raises(PolicyError, match="reserve_tokens of a Handover must be"):
        Handover(reserve_tokens=-1)
