"""Several batches in the stages of an instance: times by hand, shares of stages, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import paceline
from paceline import Affine, Cluster, Instance, Speculation, Trace, policies
from paceline.errors import ConfigError, PolicyError
from paceline.policy import (
    Admit,
    Decodes,
    Groups,
    Host,
    Layered,
    Pace,
    Pipelined,
    Policy,
    PrefixCache,
    Running,
    Scheduler,
    Swap,
    SwapIn,
    req,
)
from paceline.speculation import AcceptanceLength

SWAPPING = (Running(), SwapIn(), Admit(unless_preempted=True))
ONE = Trace.from_columns(arrival=[0.0], prompt_tokens=[10], output_tokens=[3])
LAYERED = (Decodes(), Layered(layers=2, groups=Groups(most=2)))


def cluster(stages: int = 2, **more: Any) -> Cluster:
    """Return an instance whose steps take two seconds, whatever they compute."""
    cost = Affine(step_s=2.0, token_s=0.0)
    return Cluster([Instance(cost=cost, num_blocks=100, kv_bytes=100, pipeline_parallel=stages, **more)])


def seconds(arrivals: list[float], pipelined: Pipelined | None, stages: int = 2) -> list[tuple[float, float]]:
    """Return the first and last tokens of prompts that fill a step each, with three tokens of output."""
    rows = len(arrivals)
    trace = Trace.from_columns(arrival=arrivals, prompt_tokens=[10] * rows, output_tokens=[3] * rows)
    scheduler = Scheduler(max_num_batched_tokens=10, max_num_seqs=9, pipelined=pipelined)
    result = paceline.replay(trace, cluster(stages), Policy(name="piped", scheduler=scheduler))
    table = result.requests
    return list(zip(table["first_token"].round(6), table["finish"].round(6), strict=True))


def test_two_batches_follow_each_other_by_one_stage() -> None:
    # The first prompt is in the stages from 0 to 1 and to 2 s, the second one second later. Each next token
    # follows two seconds after the one before.
    assert seconds([0.0, 0.0], Pipelined()) == [(2.0, 6.0), (3.0, 7.0)]
    # One batch at a time: the step from 2 to 4 s has the first decode and nine tokens of the second prompt.
    assert seconds([0.0, 0.0], None) == [(2.0, 6.0), (6.0, 10.0)]


def test_a_batch_without_requests_takes_a_place() -> None:
    # The second request comes as the first is in the first stage, and waits for the end of that batch at 2 s.
    # Nine of its tokens are then beside the first decode, up to 4 s; the tenth is in the next batch, up to 5.
    assert seconds([0.0, 0.5], Pipelined()) == [(2.0, 6.0), (5.0, 9.0)]
    # If no place is taken, its batch enters the first stage at 1 s.
    assert seconds([0.0, 0.5], Pipelined(empty_batches=False)) == [(2.0, 6.0), (3.0, 7.0)]


def test_one_stage_has_one_batch() -> None:
    assert seconds([0.0, 0.5], Pipelined(), stages=1) == seconds([0.0, 0.5], None, stages=1)
    # So has an instance with two stages and one batch.
    assert seconds([0.0, 0.5], Pipelined(batches=1)) == seconds([0.0, 0.5], None)


def test_the_last_stage_reads_the_lm_head_beside_its_layers() -> None:
    llama = Instance(model="llama-3.1-70b", gpu="h100-sxm", tensor_parallel=2, pipeline_parallel=4)
    shares = Pipelined().on(llama)["stages"]
    # 80 layers in four equal stages; the head has 128,256 rows of 8,192 numbers of two bytes.
    assert shares[:3] == [shares[0]] * 3
    assert shares[3] - shares[0] == 128_256 * 8_192 * 2


@pytest.mark.parametrize(
    ("scheduler", "rule"),
    [
        (Scheduler(schedule_ahead=True), "decided ahead"),
        (Scheduler(receive_interval=2), "receive_interval"),
        (Scheduler(order=(req.prompt_tokens,)), "requests are ranked"),
        (Scheduler(stages=LAYERED, allocation="sequence"), "groups of layers"),
        (Scheduler(stages=SWAPPING, preemption=Swap(cpu_blocks=9, out_s=0.1, in_s=0.1)), "swapped out"),
        (Scheduler(decodes_first=True), "decodes_first"),
        (Scheduler(prefix_cache=PrefixCache(tiers=[Host(chunks=9, bytes_per_s=1e9)])), "tiers"),
    ],
)
def test_what_is_not_modelled_beside_several_batches_is_refused(scheduler: Scheduler, rule: str) -> None:
    piped = dataclasses.replace(scheduler, pipelined=Pipelined())
    refused = rf"instances\[0\]\.pipeline: must be null where .*{rule}.*set pipelined to None.*2 stages"
    with pytest.raises(ConfigError, match=refused):
        paceline.replay(ONE, cluster(), Policy(name="piped", scheduler=piped))


def test_drafts_and_migration_are_refused_beside_several_batches() -> None:
    drafting = cluster(speculation=Speculation(method="ngram", tokens=2, acceptance=AcceptanceLength(2.0)))
    with pytest.raises(ConfigError, match="where tokens are drafted"):
        paceline.replay(ONE, drafting, policies.vllm())
    two = Cluster([*cluster().instances, *cluster().instances])
    apart = policies.disaggregated(scheduler=policies.vllm().scheduler)
    with pytest.raises(ConfigError, match="where requests may migrate"):
        paceline.replay(ONE, two, apart)
    with pytest.raises(ConfigError, match="where readers have a pace"):
        paceline.replay(ONE, cluster(), policies.vllm(), pace=Pace(tpot=0.1))


def test_vllm_has_a_batch_in_each_stage_unless_told_otherwise() -> None:
    trace = Trace.from_columns(arrival=[0.0, 0.0], prompt_tokens=[10, 10], output_tokens=[3, 3])
    ends = [
        paceline.replay(trace, cluster(), policies.vllm(max_num_batched_tokens=10, pipelined=piped)).requests[
            "e2e"
        ][1]
        for piped in (True, False)
    ]
    assert ends == [7.0, 10.0]


def test_the_number_of_batches_has_bounds() -> None:
    with pytest.raises(PolicyError, match="batches of Pipelined must be"):
        Pipelined(batches=0)
    many = Scheduler(pipelined=Pipelined(batches=2000))
    with pytest.raises(ConfigError, match=r"pipeline\.batches: must be 1 to 1024, was 2000"):
        paceline.replay(ONE, cluster(), Policy(name="piped", scheduler=many))


def test_batches_are_admitted_by_the_stages_of_any_scheduler() -> None:
    # Decodes before admissions, as Sarathi has them.
    scheduler = Scheduler(
        stages=(Decodes(), Admit(chunked=False)),
        max_num_batched_tokens=10,
        max_num_seqs=9,
        pipelined=Pipelined(),
    )
    trace = Trace.from_columns(arrival=[0.0, 0.0], prompt_tokens=[10, 10], output_tokens=[3, 3])
    result = paceline.replay(trace, cluster(), Policy(name="whole", scheduler=scheduler))
    assert result.requests["e2e"].to_list() == [6.0, 7.0]
