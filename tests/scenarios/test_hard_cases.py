"""Edge cases: caches, budgets and traces of the smallest and the largest sizes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import paceline
from paceline import policies
from paceline.policy import Policy
from paceline.policy.stages import Groups, Swap
from paceline.testing import check

Make = Callable[..., Policy]
BLOCK = 16
STEP_S = 0.010
TOKEN_S = 1e-6
KV_TOKEN_S = 1e-8
SEATS = 16

BUDGETED: dict[str, Make] = {
    "vllm": policies.vllm,
    "vllm-0.11": lambda **limits: policies.vllm(version="0.11", **limits),
    "vllm-priority": lambda **limits: policies.vllm(policy="priority", **limits),
    "vllm-cached": lambda **limits: policies.vllm(prefix_caching=True, **limits),
    "vllm-v0-chunked": lambda **limits: policies.vllm_v0(chunked_prefill=True, **limits),
    "vllm-v0-chunked-swap": lambda **limits: policies.vllm_v0(
        chunked_prefill=True, preemption=Swap(cpu_blocks=10**6, out_s=1e-4, in_s=1e-4), **limits
    ),
    "layered-prefill": lambda **limits: policies.layered_prefill(
        layers=24, groups=Groups(tokens_per_group=8, most=24), **limits
    ),
    "layered-authors-chunked": policies.authors_chunked,
    # Sarathi refuses more seats than tokens a step: each decode must have a token in every step.
    "sarathi": lambda *, max_num_batched_tokens=512, max_num_seqs: policies.sarathi(
        chunk_size=max_num_batched_tokens, max_num_seqs=min(max_num_seqs, max_num_batched_tokens)
    ),
    "sglang": lambda *, max_num_batched_tokens=8192, max_num_seqs: policies.sglang(
        chunked_prefill_size=max_num_batched_tokens,
        max_running_requests=max_num_seqs,
        schedule_conservativeness=0.0,
    ),
    "sglang-lpm": lambda *, max_num_batched_tokens=8192, max_num_seqs: policies.sglang(
        chunked_prefill_size=max_num_batched_tokens,
        max_running_requests=max_num_seqs,
        schedule_policy="lpm",
        prefix_caching=True,
        schedule_conservativeness=0.0,
    ),
}
"""Policies that cut prompts to the tokens of a step."""

WHOLE: dict[str, Make] = {
    "vllm-v0": policies.vllm_v0,
    "vllm-v0-swap": lambda **limits: policies.vllm_v0(
        preemption=Swap(cpu_blocks=10**6, out_s=1e-4, in_s=1e-4), **limits
    ),
    "layered-authors-orca": policies.authors_orca,
    "orca": policies.orca,
    "static": lambda *, max_num_seqs: policies.static(size=max_num_seqs),
}
"""Policies that do not cut prompts."""

EVERY = BUDGETED | WHOLE

every_policy = pytest.mark.parametrize("make", EVERY.values(), ids=EVERY.keys())
every_budgeted = pytest.mark.parametrize("make", BUDGETED.values(), ids=BUDGETED.keys())
STORMS = {name: make for name, make in EVERY.items() if name != "static"}
every_storm = pytest.mark.parametrize("make", STORMS.values(), ids=STORMS.keys())


def one_instance(blocks: int, **fields: object) -> paceline.Cluster:
    """Return a cluster of one instance of so many usable blocks; a step takes a little over 10 ms."""
    cost = paceline.Affine(step_s=STEP_S, token_s=TOKEN_S, kv_token_s=KV_TOKEN_S)
    return paceline.Cluster([paceline.Instance(cost=cost, num_blocks=blocks + 1, **fields)])  # type: ignore[arg-type]


def requests(arrival: list[float], prompt: list[int] | int, output: list[int] | int) -> paceline.Trace:
    """Return a trace with equal ranks and one prefix block for all; a single length counts for all rows."""
    count = len(arrival)
    prompts = prompt if isinstance(prompt, list) else [prompt] * count
    return paceline.Trace.from_columns(
        arrival=arrival,
        prompt_tokens=prompts,
        output_tokens=output if isinstance(output, list) else [output] * count,
        priority=[0] * count,
        score=[0.0] * count,
        prefix=[[1] if length >= BLOCK else [] for length in prompts],
        prefix_block_tokens=BLOCK,
    )


def both_ways(trace: paceline.Trace, cluster: paceline.Cluster, policy: Policy) -> paceline.Result:
    """Replay with and without leaping, assert that the results are equal, and check the invariants."""
    leapt = paceline.replay(trace, cluster, policy)
    stepped = paceline.replay(trace, cluster, policy, leap=False)
    assert leapt.requests.equals(stepped.requests)
    assert leapt.stats.instances == stepped.stats.instances
    assert leapt.itl.to_json() == stepped.itl.to_json()
    check(leapt)
    return leapt


def statuses(result: paceline.Result) -> set[str]:
    return set(result.requests["status"].cast(pl.String))


@every_policy
def test_a_prompt_larger_than_the_cache_is_rejected_with_the_reason_and_the_others_served(make: Make) -> None:
    trace = requests([0.0, 0.0, 0.5], [10 * BLOCK + 2, 20, 30], [1, 5, 7])
    result = both_ways(trace, one_instance(10), make(max_num_seqs=4))
    assert result.requests["status"].to_list() == ["rejected", "finished", "finished"]
    assert "blocks" in str(result.requests["reason"][0])
    assert result.requests["instance"][0] is None


@every_policy
def test_a_cache_of_one_block_serves_what_fits_one_at_a_time(make: Make) -> None:
    policy = make(max_num_seqs=4)
    result = both_ways(requests([0.0] * 5, 8, 8), one_instance(1), policy)
    if policy.scheduler.spare_block or policy.scheduler.output_reserve:
        # The policy needs a free block for each decode, or beside each admission, and there is no second one.
        assert statuses(result) == {"rejected"}
        return
    assert statuses(result) == {"finished"}
    spans = result.requests.select("scheduled", "finish").rows()
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert result.stats.instances[0].peak_blocks == 1


@every_budgeted
def test_a_budget_of_one_token_serves_every_request_a_token_a_step(make: Make) -> None:
    """A (3 in, 4 out) and B (5, 1) arrive at 0; C (2, 6) at 0.1 s, after ten steps of a little over 10 ms."""
    trace = requests([0.0, 0.0, 0.1], [3, 5, 2], [4, 1, 6])
    policy = make(max_num_batched_tokens=1, max_num_seqs=4)
    # Prompts that are charged in whole blocks have blocks of the one token.
    cluster = one_instance(320, block_tokens=1) if policy.scheduler.output_reserve else one_instance(20)
    result = both_ways(trace, cluster, policy)
    assert statuses(result) == {"finished"}
    stats = result.stats.instances[0]
    assert stats.prefill_tokens == 3 + 5 + 2
    assert stats.decode_tokens == 3 + 0 + 5  # the last token of each is never computed on
    kinds = [stage.kind for stage in policy.scheduler.stages]
    if "layered" in kinds:
        # Decodes take none of the budget and run beside prompts: A's beside B's. C's five run alone.
        assert stats.steps == 10 + 5
    elif kinds[0] == "prefills":
        # Decodes wait for all prompts. A has two alone before C arrives, and its third with C's first.
        assert stats.steps == 10 + 2 + 5
    else:
        assert stats.steps == stats.prefill_tokens + stats.decode_tokens


@every_policy
def test_ten_thousand_equal_arrivals_are_served_in_their_order(make: Make) -> None:
    result = both_ways(requests([1.0] * 10_000, 20, 3), one_instance(400), make(max_num_seqs=64))
    assert statuses(result) == {"finished"}
    assert result.requests["scheduled"].is_sorted()
    stats = result.stats.instances[0]
    # Two blocks a request: 200 fit where decodes take no seat.
    assert stats.peak_running == (200 if make is policies.authors_orca else 64)
    busy_s = stats.busy_ticks / 10**12
    # A request is in three steps or more, and one step follows the other without a pause.
    assert stats.steps * stats.peak_running >= 3 * 10_000
    assert result.requests["finish"].max() == pytest.approx(1.0 + busy_s, abs=1e-9)
    assert busy_s >= stats.steps * STEP_S


@every_policy
def test_outputs_of_one_token_end_with_their_prefill(make: Make) -> None:
    trace = requests([0.0, 0.0, 0.004, 0.3], [40, 7, 100, 16], 1)
    result = both_ways(trace, one_instance(40), make(max_num_seqs=4))
    assert statuses(result) == {"finished"}
    assert result.requests["first_token"].equals(result.requests["finish"], check_names=False)
    assert result.requests["tpot"].null_count() == result.requests["max_itl"].null_count() == 4
    assert result.itl.count == 0
    assert result.stats.instances[0].decode_tokens == 0


@every_policy
def test_a_trace_of_121_days_loses_no_precision(make: Make) -> None:
    days = [day * 86_400.0 for day in range(122)]
    alone = both_ways(requests([0.0], 100, 20), one_instance(40), make(max_num_seqs=4))
    result = both_ways(requests(days, 100, 20), one_instance(40), make(max_num_seqs=4))
    cold = 1 if result.stats.instances[0].prefix_hits else 122
    for name in ("ttft", "tpot", "e2e", "max_itl"):
        # Latencies are differences of whole ticks, however late it is.
        assert set(result.requests[name].head(cold)) == set(alone.requests[name])
        assert result.requests[name].tail(121).n_unique() == 1
    assert result.requests["finish"][-1] > 121 * 86_400.0


@every_policy
def test_a_prompt_of_190_000_tokens(make: Make) -> None:
    policy = make(max_num_seqs=4)
    trace = requests([0.0, 0.01, 0.02], [190_000, 50, 60], [50, 40, 1])
    result = both_ways(trace, one_instance(13_000), policy)
    budget = policy.scheduler.limits((2048, 256))[0]
    if make in WHOLE.values() and budget < 190_000:
        assert result.requests["status"].to_list() == ["rejected", "finished", "finished"]
        assert "step" in str(result.requests["reason"][0])
        return
    assert statuses(result) == {"finished"}
    assert result.stats.steps >= 190_000 // budget


def storm(make: Make, arrival: list[float], rank: list[int]) -> paceline.Result:
    trace = requests(arrival, 40, 60)
    frame = trace.frame.with_columns(priority=pl.Series(rank, dtype=pl.Int32))
    policy = make(max_num_seqs=16)
    # Seven blocks hold the 99 tokens of one request; watermarks and spare blocks need two more. Where an
    # admission needs room for its whole output, a second request needs twice as many.
    blocks = 20 if policy.scheduler.output_reserve else 9
    return both_ways(paceline.Trace(frame, prefix_block_tokens=BLOCK), one_instance(blocks), policy)


@every_storm
@pytest.mark.parametrize("ranks", ["equal", "rising", "falling"])
def test_a_preemption_storm_ends(make: Make, ranks: str) -> None:
    count = 300
    rank = {"equal": [0] * count, "rising": list(range(count)), "falling": list(range(count))[::-1]}[ranks]
    result = storm(make, [0.0] * count, rank)
    assert statuses(result) == {"finished"}
    assert result.totals().preemptions > 0
    # Progress: no gap between completions exceeds the time of all seats served one after another.
    finish = result.requests["finish"].sort().to_numpy()
    assert np.diff(finish, prepend=0.0).max() <= SEATS * finish[0]


@every_storm
def test_a_storm_that_keeps_arriving_ends(make: Make) -> None:
    count = 300
    result = storm(make, [0.013 * row for row in range(count)], [row % 3 for row in range(count)])
    assert statuses(result) == {"finished"}
    assert result.totals().preemptions > 0


@pytest.mark.parametrize("chunked", [False, True])
def test_a_swap_space_of_no_blocks_is_recompute_and_says_so(chunked: bool) -> None:
    trace = requests([0.0] * 40, 40, 60)
    swapping = policies.vllm_v0(
        chunked_prefill=chunked, preemption=Swap(cpu_blocks=0, out_s=1.0, in_s=1.0), max_num_seqs=16
    )
    recomputing = policies.vllm_v0(chunked_prefill=chunked, max_num_seqs=16)
    swapped = both_ways(trace, one_instance(15), swapping)
    recomputed = both_ways(trace, one_instance(15), recomputing)
    assert swapped.requests.equals(recomputed.requests)
    stats = swapped.stats.instances[0]
    assert stats.preemptions > 0
    assert stats.swap_overflows == stats.preemptions
    assert stats.swapped_out_blocks == stats.swapped_in_blocks == 0


@pytest.mark.parametrize(
    ("make", "blocks"), [(BUDGETED["vllm-cached"], 1), (BUDGETED["sglang-lpm"], 3)], ids=["vllm", "sglang"]
)
def test_a_thousand_requests_share_the_blocks_of_one_prefix(make: Make, blocks: int) -> None:
    shared, own, count = 30, 4, 1000
    trace = paceline.Trace.from_columns(
        arrival=[0.0] + [10.0] * (count - 1),
        prompt_tokens=[shared * BLOCK + own] * count,
        output_tokens=[8] * count,
        prefix=[list(range(shared))] * count,
        prefix_block_tokens=BLOCK,
    )
    # The cache holds the prefix once and one block for each of 1,000 requests; unshared, it would hold 33.
    # SGLang takes a block for what it computes, another beside it, and 8 tokens of output: three are enough.
    result = both_ways(
        trace, one_instance(shared + blocks * count), make(max_num_batched_tokens=16_384, max_num_seqs=2000)
    )
    assert statuses(result) == {"finished"}
    stats = result.stats.instances[0]
    assert stats.preemptions == 0
    assert stats.prefix_hits == (count - 1) * shared * BLOCK
    assert stats.peak_blocks == shared + count - 1
    assert stats.peak_running == count - 1
    computed = shared * BLOCK + own + (count - 1) * own
    assert stats.prefill_tokens == computed


@every_policy
def test_a_trace_of_one_request(make: Make) -> None:
    result = both_ways(requests([2.5], 1, 1), one_instance(5), make(max_num_seqs=1))
    row = result.requests.row(0, named=True)
    assert (row["status"], row["arrival"], row["generated_tokens"]) == ("finished", 2.5, 1)
    assert result.stats.steps == 1
    # A batch of one is full at once. One token is computed and one is in the cache.
    assert row["scheduled"] == 2.5
    assert row["e2e"] == pytest.approx(STEP_S + TOKEN_S + KV_TOKEN_S, abs=1e-12)
