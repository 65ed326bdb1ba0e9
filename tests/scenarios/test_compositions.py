"""Unusual compositions of a scheduler: leaping equals stepping, and every token is made once.

Random compositions found each case, and each was reduced as far as it would go. The search in
``tests/search`` looks for more.
"""

from __future__ import annotations

from typing import Any

import pytest

import paceline
from paceline import Affine, Result, Scheduler, Trace, req
from paceline.errors import NoProgressError
from paceline.policy import Class, Policy, PrefixCache
from paceline.policy.stages import Admit, Decodes, Groups, Layered, Prefills, Running, Swap, SwapIn

Case = tuple[Trace, Scheduler, int, int, Affine]
trace = Trace.from_columns


def replay(case: Case, *, leap: bool = True) -> Result:
    requests, scheduler, block_tokens, num_blocks, cost = case
    instance = paceline.Instance(block_tokens=block_tokens, num_blocks=num_blocks, cost=cost)
    policy = Policy(name="composed", scheduler=scheduler)
    return paceline.replay(requests, paceline.Cluster([instance]), policy, leap=leap)


CASES: dict[str, Case] = {
    "the rank of a request that arrives in a run changes with time": (
        trace(
            arrival=[0.357, 0.537, 0.551, 0.701],
            prompt_tokens=[16, 23, 11, 1],
            output_tokens=[11, 4, 1, 1],
            priority=[2, 2, 2, 1],
        ),
        Scheduler(
            classes=[Class("a", when=req.waiting_time > 0.05, hold=5, order=req.priority), Class("b")],
            allocation="chunk",
        ),
        1,
        54,
        Affine(step_s=0.016, kv_token_s=0.001),
    ),
    "seats are not counted with decodes": (
        trace(arrival=[0.0, 0.0, 0.0], prompt_tokens=[19, 1, 1], output_tokens=[32, 1, 29]),
        Scheduler(
            max_num_batched_tokens=2,
            max_num_seqs=1,
            stages=(Running(), Admit(unless_preempted=True, count_decodes=False)),
            allocation="chunk",
            refund=False,
        ),
        4,
        21,
        Affine(step_s=0, token_s=0.001),
    ),
    "a request preempts itself and swaps": (
        trace(arrival=[0.016, 0.04, 0.043], prompt_tokens=[28, 29, 4], output_tokens=[28, 11, 19]),
        Scheduler(
            max_num_batched_tokens=32,
            max_num_seqs=4,
            order=req.generated_tokens // 5,
            admission="displace",
            preemption=Swap(cpu_blocks=100, out_s=0.0002, in_s=0.001),
            stop_at_own_preemption=True,
        ),
        4,
        17,
        Affine(step_s=0.001, token_s=0.001),
    ),
    "a displaced request shares blocks with the one that comes in": (
        trace(
            arrival=[0.0, 0.0, 0.0],
            prompt_tokens=[9, 10, 21],
            output_tokens=[2, 2, 1],
            prefix=[[1, 2, 1], [0, 1, 1], [0, 1, 1, 2, 1, 0]],
            prefix_block_tokens=4,
        ),
        Scheduler(prefix_cache=PrefixCache(), admission="displace", order=req.attained_time // 0.02),
        1,
        22,
        Affine(step_s=0.001, token_s=0.001),
    ),
    "displacement by priority beside a prefix cache": (
        trace(
            arrival=[0.64, 0.675, 0.735, 0.738, 0.745],
            prompt_tokens=[26, 5, 13, 9, 25],
            output_tokens=[4, 2, 1, 1, 1],
            priority=[1, 2, 0, 1, 0],
            prefix=[[1, 1, 0, 1, 2, 1, 0], [1], [2, 1, 2], [1, 2, 1], [0, 0, 1, 1, 0, 0]],
            prefix_block_tokens=4,
        ),
        Scheduler(prefix_cache=PrefixCache(), admission="displace", order="priority"),
        4,
        21,
        Affine(step_s=0.008, kv_token_s=0.001),
    ),
    "decodes that a budget of two does not reach run beside layers": (
        trace(arrival=[0.157, 0.165, 0.172, 0.203], prompt_tokens=[6, 1, 1, 1], output_tokens=[5, 3, 2, 1]),
        Scheduler(
            stages=(Decodes(), Layered(layers=12, groups=Groups(tokens_per_group=4, most=12))),
            max_num_batched_tokens=2,
            allocation="sequence",
        ),
        1,
        1000,
        Affine(step_s=0.01),
    ),
    "requests are swapped in before others run": (
        trace(arrival=[0.0] * 3, prompt_tokens=[1, 6, 25], output_tokens=[10, 24, 19]),
        Scheduler(
            stages=(SwapIn(), Running(), Admit()),
            preemption=Swap(cpu_blocks=1000, out_s=0.0002, in_s=0.001),
        ),
        1,
        58,
        Affine(step_s=0.01),
    ),
    "requests are admitted before others run": (
        trace(arrival=[0.0] * 3, prompt_tokens=[1, 6, 25], output_tokens=[10, 24, 19]),
        Scheduler(stages=(Admit(), Running()), max_num_batched_tokens=4, allocation="chunk"),
        1,
        50,
        Affine(step_s=0.01),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_leaping_equals_stepping(name: str) -> None:
    leaping, stepping = (replay(CASES[name], leap=leap) for leap in (True, False))
    assert leaping.requests.equals(stepping.requests)


@pytest.mark.parametrize("name", CASES)
def test_every_token_is_made_once(name: str) -> None:
    result = replay(CASES[name])
    assert result.requests["status"].unique().to_list() == ["finished"]
    output = CASES[name][0].frame["output_tokens"]
    assert result.requests["generated_tokens"].to_list() == output.to_list()


def test_requests_that_wait_for_each_others_blocks_end_with_an_error() -> None:
    # Either prompt would fit alone. Each gets three tokens a step, and no decode preempts one for the other.
    scheduler = Scheduler(
        stages=(Prefills(), Admit(), Decodes()),
        exclusive_prefill=True,
        allocation="chunk_if_all_fits",
        long_prefill_token_threshold=3,
        max_num_batched_tokens=8,
    )
    requests = trace(arrival=[0.0, 0.0], prompt_tokens=[8, 8], output_tokens=[2, 2])
    with pytest.raises(
        NoProgressError, match=r"instances\[0\] makes no progress at 0\.0\d+ s: 2 admitted"
    ) as stuck:
        replay((requests, scheduler, 1, 13, Affine(step_s=0.01)))
    assert "no stage of its scheduler can run any" in str(stuck.value)


def test_requests_that_displace_each_other_forever_end_with_an_error() -> None:
    # The request with the fewest computed tokens ranks first, and a displaced request has computed none.
    scheduler = Scheduler(
        order=req.kv_tokens // 1,
        admission="displace",
        max_num_seqs=1,
        max_num_batched_tokens=2,
        long_prefill_token_threshold=1,
    )
    requests = trace(arrival=[0.0] * 4, prompt_tokens=[9] * 4, output_tokens=[1] * 4)
    case: Any = (requests, scheduler, 1, 31, Affine(step_s=0.01))
    for leap in (True, False):
        with pytest.raises(NoProgressError, match="they preempt each other before any yields its next token"):
            replay(case, leap=leap)
