"""The engine's counters of the prefix cache and of swapping are in the result, and survive saving."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline import Affine, Cluster, Instance, Policy, Result, Trace, load_result, policies, replay
from paceline.policy.stages import Swap

COST = Affine(step_s=0.010, token_s=0.0, kv_token_s=0.0)


def replayed(trace: Trace, policy: Policy, *, blocks: int) -> Result:
    # One block more than is usable: vLLM's null block.
    return replay(trace, Cluster([Instance(cost=COST, num_blocks=blocks + 1)]), policy)


def shared_prompts() -> Trace:
    """Three requests, each long after the last, whose prompts start the same by blocks of 16 tokens."""
    return Trace.from_columns(
        arrival=[0.0, 100.0, 200.0],
        prompt_tokens=[100, 100, 64],
        output_tokens=[4, 4, 4],
        prefix=[[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4]],
        prefix_block_tokens=16,
    )


def test_cached_tokens_are_the_full_blocks_before_the_last_token_of_the_prompt() -> None:
    result = replayed(shared_prompts(), policies.vllm(prefix_caching=True), blocks=100)
    # A prompt of 100 tokens has 6 full blocks; one of 64 has 4, but its last token is always computed anew.
    assert result.requests["cached_tokens"].to_list() == [0, 96, 48]
    totals = result.totals()
    assert (totals.prefix_queries, totals.prefix_hits) == (264, 144)
    assert totals.prefix_hit_rate == 144 / 264
    assert (totals.evictions, totals.preemptions) == (0, 0)


def test_without_prefix_caching_nothing_is_asked_or_found() -> None:
    result = replayed(shared_prompts(), policies.vllm(), blocks=100)
    assert result.requests["cached_tokens"].to_list() == [0, 0, 0]
    assert result.totals().prefix_queries == 0


def crowded(cpu_blocks: int) -> Result:
    """Two requests of 40 blocks in the end, on 60."""
    trace = Trace.from_columns(arrival=[0.0, 0.0], prompt_tokens=[160, 160], output_tokens=[480, 480])
    return replayed(trace, policies.vllm_v0(preemption=Swap(cpu_blocks=cpu_blocks)), blocks=60)


def test_what_is_swapped_out_is_swapped_in() -> None:
    totals = crowded(cpu_blocks=60).totals()
    assert totals.finished == 2
    assert totals.swapped_out_blocks == totals.swapped_in_blocks > 0
    assert totals.swap_overflows == 0


def test_a_full_swap_space_is_counted() -> None:
    totals = crowded(cpu_blocks=0).totals()
    assert totals.finished == 2
    assert totals.swap_overflows == totals.preemptions > 0
    assert totals.swapped_out_blocks == totals.swapped_in_blocks == 0


@pytest.mark.parametrize("case", ["cached", "swapped", "oracle"])
def test_counts_survive_saving(case: str, tmp_path: Path) -> None:
    if case == "swapped":
        result = crowded(cpu_blocks=60)
    else:
        caching = case == "cached"
        order = policies.vllm(prefix_caching=True) if caching else policies.sglang(schedule_policy="lof")
        result = replayed(shared_prompts(), order, blocks=100)
    loaded = load_result(result.save(tmp_path / "run"))
    assert loaded == result
    assert loaded.totals() == result.totals()
    assert loaded.totals().uses_oracle is (case == "oracle")
    assert loaded.requests["cached_tokens"].equals(result.requests["cached_tokens"])


def test_a_prompt_that_is_not_cut_is_refused_by_the_tokens_of_a_step() -> None:
    trace = Trace.from_columns(arrival=[0.0, 0.0], prompt_tokens=[513, 512], output_tokens=[2, 2])
    result = replayed(trace, policies.vllm_v0(max_num_batched_tokens=512), blocks=100)
    assert result.requests["status"].to_list() == ["rejected", "finished"]
    assert result.totals().rejected_by_reason == {
        "prompt longer than the tokens of a step, which is not cut into chunks": 1
    }
