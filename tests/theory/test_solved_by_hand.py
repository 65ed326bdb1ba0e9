"""Scenarios small enough to solve on paper, through the engine and through the reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.engine import Row, engine, reference, rows_of_engine, rows_of_reference
from differential.strategies import Case
from paceline.testing.reference import AffineCost, Request, VllmV1Config

US = 10**6  # ticks in a microsecond

Simulator = Callable[[Case], list[Row]]
SIMULATORS: dict[str, Simulator] = {
    "step": lambda case: rows_of_engine(engine(case, leap=False)),
    "leap": lambda case: rows_of_engine(engine(case, leap=True)),
    "reference": lambda case: rows_of_reference(reference(case)),
}
EACH = pytest.mark.parametrize("simulate", SIMULATORS.values(), ids=SIMULATORS)

# A step takes 10 ms, 10 µs for each token in it, and 1 µs for each token in their caches at its end.
COST = AffineCost(step=10_000 * US, token=10 * US, kv_token=1 * US)


@EACH
def test_two_requests_that_overlap(simulate: Simulator) -> None:
    """A (100 tokens in, 3 out) arrives at 0, and B (50 in, 2 out) at 5 ms, during A's first step.

    ====  ======================  ===============  ==========================  =======
    step  runs                    tokens, cached   takes                       ends at
    ====  ======================  ===============  ==========================  =======
    1     A's prompt              100, 100         10,000 + 1,000 + 100        11,100
    2     A's 2nd token, B's      51, 101 + 50     10,000 + 510 + 151          21,761
          prompt
    3     A's 3rd and B's 2nd     2, 102 + 51      10,000 + 20 + 153           31,934
    ====  ======================  ===============  ==========================  =======
    """
    config = VllmV1Config(block_size=16, num_blocks=101, max_num_batched_tokens=2048, max_num_seqs=8)
    requests = [Request(0, 100, 3), Request(5_000 * US, 50, 2)]
    a, b = simulate(Case(requests=requests, instances=[(config, COST)]))
    assert (a.scheduled, a.first_token, a.finish) == (0, 11_100 * US, 31_934 * US)
    assert (b.scheduled, b.first_token, b.finish) == (11_100 * US, 21_761 * US, 31_934 * US)
    assert (a.longest_gap, b.longest_gap) == (10_661 * US, 10_173 * US)


@EACH
def test_the_later_of_two_is_preempted_and_recomputed(simulate: Simulator) -> None:
    """Two requests of 4 tokens in and 6 out; 3 blocks of 4 tokens; a step takes 1 tick.

    Both prompts run in step 1 (a block each). Step 2 needs a second block for each and one is free:
    A gets it, and B is preempted with 1 token out. B's 5 tokens need 2 blocks, and 1 of the 3 is
    free. A runs alone in steps 2 to 6, and its last token ends step 6. B recomputes its 5 tokens in
    step 7, which yields its second token; its sixth ends step 11.
    """
    config = VllmV1Config(block_size=4, num_blocks=4, max_num_batched_tokens=64, max_num_seqs=8)
    requests = [Request(0, 4, 6), Request(0, 4, 6)]
    a, b = simulate(Case(requests=requests, instances=[(config, AffineCost(step=1))]))
    assert (a.first_token, a.finish, a.preemptions) == (1, 6, 0)
    assert (b.first_token, b.finish, b.preemptions, b.longest_gap) == (1, 11, 1, 6)


@EACH
@given(
    prompt=st.integers(1, 300),
    output=st.integers(1, 100),
    budget=st.integers(1, 80),
    step=st.integers(1, 1000),
    token=st.integers(0, 50),
    kv_token=st.integers(0, 50),
)
def test_a_request_alone(
    simulate: Simulator, prompt: int, output: int, budget: int, step: int, token: int, kv_token: int
) -> None:
    """The prompt takes one step for each chunk of the budget, and each further token one step."""
    config = VllmV1Config(block_size=16, num_blocks=101, max_num_batched_tokens=budget, max_num_seqs=8)
    cost = AffineCost(step=step, token=token, kv_token=kv_token)
    (row,) = simulate(Case(requests=[Request(7, prompt, output)], instances=[(config, cost)]))
    chunks = -(-prompt // budget)
    cached = sum(min(i * budget, prompt) for i in range(1, chunks + 1))
    first = 7 + chunks * step + token * prompt + kv_token * cached
    decodes = output - 1
    cached = decodes * prompt + decodes * (decodes + 1) // 2
    assert (row.scheduled, row.first_token) == (7, first)
    assert row.finish == first + decodes * (step + token) + kv_token * cached
