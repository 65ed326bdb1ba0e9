"""PASCAL's headroom for migration and the strict order of its FCFS, counted by hand."""

from __future__ import annotations

import pytest

from paceline import Affine, Cluster, Instance, Trace, replay
from paceline.errors import PolicyError
from paceline.policies import PascalReading, fcfs, pascal
from paceline.policy import Swap

SWAP = Swap(cpu_blocks=1000, out_s=0.0, in_s=0.0)


@pytest.mark.parametrize(("room", "moves"), [(0, 0), (32, 0), (33, 1), (192, 1), (None, 1)])
def test_room_counts_what_is_free_above_the_watermark(room: int | None, moves: int) -> None:
    """A request stays only if its instance could hold its room without touching the watermark.

    100 blocks of 16 tokens each, of which an admission leaves 10 free. The first request holds 82 blocks or
    more of instance 0, where the second has no room. On instance 1 the second holds 11 blocks when its
    reasoning ends, and the third 77: 12 are free, 2 above the watermark, or 32 tokens.
    """
    trace = Trace.from_columns(
        arrival=[0.0, 0.1, 0.12],
        prompt_tokens=[1300, 160, 1222],
        output_tokens=[100, 105, 200],
        reasoning_tokens=[0, 5, 199],
    )
    instance = Instance(cost=Affine(step_s=0.01), num_blocks=101)
    policy = pascal(watermark=0.1, reading=PascalReading(room=room), preemption=SWAP)
    requests = replay(trace, Cluster(2 * [instance]), policy).requests
    assert requests["migrations"][1] == moves


def test_room_is_a_quantum_unless_it_is_given() -> None:
    assert pascal(quantum=250) == pascal(quantum=250, reading=PascalReading(room=250))
    assert pascal() != pascal(reading=PascalReading(room=0))
    with pytest.raises(PolicyError, match=r"room of a PascalReading must be 0 or more tokens, was -1"):
        PascalReading(room=-1)


@pytest.mark.parametrize("strict", [True, False])
def test_strict_fcfs_admits_no_request_past_an_earlier_one_that_is_swapped_out(strict: bool) -> None:
    """Two requests of 3 blocks grow until the later one is swapped out of 9 blocks; then a small one arrives.

    The swapped one needs more blocks than are free until the first ends; the small one needs a single block.
    """
    trace = Trace.from_columns(
        arrival=[0.0, 0.001, 0.5],
        prompt_tokens=[40, 40, 4],
        output_tokens=[60, 60, 4],
    )
    instance = Instance(cost=Affine(step_s=0.01), num_blocks=10)
    policy = fcfs(strict=strict, watermark=0.0, preemption=SWAP)
    requests = replay(trace, Cluster([instance]), policy).requests
    first, second, small = requests["finish"].to_list()
    assert requests["preemptions"].to_list() == [0, 1, 0]
    assert (small > first) == strict
    assert second > first


def test_strict_order_is_refused_for_whole_prompts() -> None:
    with pytest.raises(PolicyError, match=r"strict of fcfs must be False with whole prompts, was True"):
        fcfs(chunked_prefill=False)
