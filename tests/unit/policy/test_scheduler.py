"""What a scheduler and its stages accept and refuse, and their wire form."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import paceline
from paceline.errors import PolicyError
from paceline.policies import static
from paceline.policies.layered_prefill import by_table
from paceline.policy import Policy, PrefixCache, Scheduler
from paceline.policy.stages import Admit, Groups, Running, Swap, SwapIn


def make(**fields: Any) -> Callable[[], object]:
    """Return what makes a scheduler of some fields."""
    return lambda: Scheduler(**fields)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (make(max_num_seqs=0), r"max_num_seqs must be 1 to 4294967294, or None for the default, was 0"),
        (make(max_num_batched_tokens=2**32), r"max_num_batched_tokens must be 1 to .*was 4294967296"),
        (make(long_prefill_token_threshold=-1), r"long_prefill_token_threshold must be 0 .*was -1"),
        (make(watermark=1.0), r"watermark must be a share of the blocks, 0 or more and below 1, was 1\.0"),
        (make(watermark=-0.1), r"watermark must be .*was -0\.1"),
        (make(watermark=float("nan")), r"watermark must be .*was nan"),
        (make(order="longest_prefix"), r"order must not be longest_prefix where prefix_cache is None"),
        (
            make(order="shared_prefix", prefix_cache=PrefixCache()),
            r"order must not be shared_prefix unless prefix_cache has a tree",
        ),
        (lambda: Swap(cpu_blocks=-1), r"cpu_blocks of a Swap must be 0 or more, was -1"),
        (lambda: Swap(cpu_blocks=1, in_s=-1.0), r"in_s of a Swap must be 0 or more seconds, was -1\.0"),
        (
            lambda: Swap.sized(memory_bytes=1, block_bytes=0, bytes_per_s=1),
            r"block_bytes of a Swap must be a finite number above 0, was 0",
        ),
        (lambda: Groups(limits=((2, 1), (1, 1)), most=1), r"limits of Groups must be in order of tokens"),
        (lambda: by_table(5), r"groups must be one of 4, 12, 16, 24, or a rule, was 5"),
        (lambda: Policy(name="a", on_arrival="best"), r"on_arrival must be one of .*was 'best'"),  # type: ignore[arg-type]
    ],
)
def test_values_out_of_range_are_refused_by_name(attempt: Callable[[], object], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        attempt()


def test_a_policy_is_a_value() -> None:
    policy = Policy(name="mine", scheduler=Scheduler(max_num_seqs=3))
    assert policy == Policy(name="mine", scheduler=Scheduler(max_num_seqs=3))
    assert len({policy, Policy(name="mine", scheduler=Scheduler(max_num_seqs=3))}) == 1
    assert policy != Policy(name="mine", scheduler=Scheduler(max_num_seqs=4))
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.name = "yours"  # type: ignore[misc]


def test_limits_come_from_the_gpu_where_none_are_given() -> None:
    assert Scheduler().limits((8192, 1024)) == (8192, 1024)
    assert Scheduler(max_num_seqs=7).limits((8192, 1024)) == (8192, 7)
    assert Scheduler(max_num_batched_tokens=512).limits((8192, 1024)) == (512, 1024)


def test_the_wire_counts_in_blocks_and_ticks() -> None:
    wire = Scheduler(
        stages=(Running(), SwapIn(), Admit()),
        watermark=0.01,
        preemption=Swap(cpu_blocks=9, out_s=0.25, in_s=0.5),
    ).to_wire(num_blocks=1099, defaults=(1, 1))
    assert wire["watermark_blocks"] == 10
    assert wire["preemption"] == {
        "kind": "swap",
        "blocks": 9,
        "out": 250_000_000_000,
        "back": 500_000_000_000,
        "overlapped": False,
    }
    stages = static(size=3, wait_s=0.5).scheduler.to_wire(num_blocks=9, defaults=(1, 1))["stages"]
    assert isinstance(stages, list)
    assert stages[1]["gather"] == {"size": 3, "wait": 500_000_000_000}


@pytest.mark.parametrize("order", ["priority", "score"])
def test_an_order_by_a_column_needs_the_column(order: Any) -> None:
    policy = Policy(name="mine", scheduler=Scheduler(order=order))
    trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[1], output_tokens=[1])
    cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=1.0), num_blocks=9)])
    with pytest.raises(PolicyError, match=f"order '{order}' needs a trace with the column {order}"):
        paceline.replay(trace, cluster, policy)


@pytest.mark.parametrize(
    ("order", "finish"),
    [("arrival", [1.0, 2.0, 3.0]), ("score", [2.0, 3.0, 1.0]), ("priority", [3.0, 1.0, 2.0])],
)
def test_an_order_decides_which_request_is_admitted_first(order: Any, finish: list[float]) -> None:
    scheduler = Scheduler(order=order, max_num_seqs=1)
    trace = paceline.Trace.from_columns(
        arrival=[0.0, 0.0, 0.0],
        prompt_tokens=[1, 1, 1],
        output_tokens=[1, 1, 1],
        score=[0.5, 0.7, -0.5],
        priority=[7, -1, 0],
    )
    cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=1.0), num_blocks=9)])
    result = paceline.replay(trace, cluster, Policy(name="mine", scheduler=scheduler))
    assert result.requests["finish"].to_list() == finish
