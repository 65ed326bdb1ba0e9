"""For each policy and any trace the replay ends, and leaping changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import policies
from paceline.policies.by_name import names
from paceline.policy import Host, Policy, PrefixCache
from paceline.policy.stages import Swap
from paceline.testing import check
from paceline.testing.strategies import RANKED, ranked
from unit.policies.scenario import run_each, workloads

Draw = Callable[..., Policy]

SWAPS = st.sampled_from([Swap(cpu_blocks=0), Swap(cpu_blocks=50, out_s=0.1, in_s=0.2)])
CHUNKS = st.sampled_from([4, 7, 16, 64])
# Chunks that are charged in whole blocks have at least the 16 tokens of one.
PAGED_CHUNKS = st.sampled_from([16, 23, 64])
SEATS = st.sampled_from([1, 2, 4])
LIMITS = {
    "max_num_batched_tokens": CHUNKS,
    "max_num_seqs": st.sampled_from([1, 3, 16]),
    "routing": st.just("fewest_requests"),
}


def _hierarchical(write: Any) -> PrefixCache:
    """Return a prefix cache with a small tier, to which a block takes a millisecond."""
    host = Host(chunks=9, bytes_per_s=16e3, write=write, overlap="layers", layers=3, prompt_only=False)
    return PrefixCache(tiers=[host])


STRATEGIES: dict[str, st.SearchStrategy[Policy]] = {
    "authors_chunked": st.builds(
        policies.authors_chunked, max_num_batched_tokens=CHUNKS, max_num_seqs=st.sampled_from([1, 2, 4, 16])
    ),
    "authors_orca": st.builds(
        policies.authors_orca, max_num_batched_tokens=st.just(70), max_num_seqs=st.sampled_from([1, 3, 16])
    ),
    "layered_prefill": st.builds(
        policies.layered_prefill,
        layers=st.sampled_from([24, 48]),
        groups=st.sampled_from([4, 12, 16, 24]),
        max_num_batched_tokens=CHUNKS,
        max_num_seqs=st.sampled_from([1, 3, 16]),
    ),
    "orca": st.builds(policies.orca, max_num_seqs=st.sampled_from([1, 3, 16])),
    **{name: st.fixed_dictionaries(LIMITS).flatmap(partial(ranked, name)) for name in RANKED},
    "dynamo": st.builds(
        policies.dynamo,
        block_tokens=st.sampled_from([4, 16]),
        overlap_score_credit=st.sampled_from([0.0, 0.5, 1.0]),
        overlap_score_credit_decay=st.sampled_from([0.0, 0.7]),
        decode_active_request_weight=st.sampled_from([0.0, 2.0]),
        temperature=st.sampled_from([0.0, 0.5]),
        tracking=st.builds(
            policies.DynamoTracking,
            use_kv_events=st.booleans(),
            active_blocks=st.booleans(),
            output_blocks=st.booleans(),
            expected_outputs=st.booleans(),
            assume_kv_reuse=st.booleans(),
            prefill_tokens=st.booleans(),
        ),
        decode_pool=st.booleans(),
        seed=st.integers(0, 3),
    ),
    "fcfs": st.builds(policies.fcfs, preemption=SWAPS, max_num_batched_tokens=CHUNKS),
    "llm_d": st.builds(
        policies.llm_d,
        prefix_weight=st.sampled_from([0.0, 3.0]),
        block_tokens=st.sampled_from([4, 16]),
        capacity=st.sampled_from([3, 31_250]),
        longest=st.sampled_from([2, 256]),
        seed=st.integers(0, 3),
    ),
    "llumnix": st.builds(
        policies.llumnix, defrag=st.booleans(), scheduler=st.just(policies.vllm().scheduler)
    ),
    "sarathi": st.builds(
        policies.sarathi, chunk_size=CHUNKS, max_num_seqs=SEATS, watermark=st.sampled_from([0.0, 0.01, 0.1])
    ),
    "sglang": st.builds(
        policies.sglang,
        schedule_policy=st.sampled_from(["fcfs", "lof", "lpm", "dfs-weight"]),
        chunked_prefill_size=PAGED_CHUNKS,
        max_running_requests=st.sampled_from([1, 3, 16]),
        prefix_caching=st.just(True),
    ),
    "sglang, hierarchical cache": st.builds(
        policies.sglang,
        chunked_prefill_size=PAGED_CHUNKS,
        max_running_requests=st.sampled_from([3, 16]),
        prefix_caching=st.sampled_from(["through", "selective", "back"]).map(_hierarchical),
        overlap_schedule=st.booleans(),
    ),
    "sglang, no cache": st.builds(
        policies.sglang,
        schedule_policy=st.sampled_from(["fcfs", "lof"]),
        chunked_prefill_size=PAGED_CHUNKS,
        max_running_requests=st.sampled_from([1, 3, 16]),
        mixed_chunk=st.booleans(),
        schedule_conservativeness=st.sampled_from([0.0, 0.3, 1.0]),
        receive_interval=st.sampled_from([1, 4]),
        overlap_schedule=st.booleans(),
        priorities=st.sampled_from([None, "highest", "lowest"]),
    ),
    "sglang_router": st.builds(
        policies.sglang_router,
        cache_threshold=st.sampled_from([0.0, 0.3, 1.0]),
        balance_abs_threshold=st.sampled_from([0, 2, 64]),
        balance_rel_threshold=st.sampled_from([1.0, 1.5]),
    ),
    "static": st.builds(
        policies.static, size=st.sampled_from([1, 2, 5]), wait_s=st.sampled_from([0.0, 0.7, 3.0])
    ),
    "tensorrt_llm": st.builds(
        policies.tensorrt_llm,
        capacity=st.sampled_from(["guaranteed_no_evict", "max_utilization", "static_batch"]),
        max_num_tokens=st.just(64),
        max_batch_size=SEATS,
        prefix_caching=st.booleans(),
    ),
    "vllm": st.builds(
        policies.vllm,
        version=st.sampled_from(["0.11", "0.33"]),
        policy=st.sampled_from(["fcfs", "priority"]),
        prefix_caching=st.booleans(),
        max_num_batched_tokens=CHUNKS,
        max_num_seqs=st.sampled_from([1, 3, 16]),
        long_prefill_token_threshold=st.sampled_from([0, 3]),
        watermark=st.sampled_from([0.0, 0.1]),
    ),
    "vllm_v0": st.builds(
        policies.vllm_v0,
        chunked_prefill=st.just(True),
        preemption=st.sampled_from([None, Swap(cpu_blocks=0), Swap(cpu_blocks=50, out_s=0.1, in_s=0.2)]),
        max_num_batched_tokens=CHUNKS,
        max_num_seqs=st.sampled_from([1, 3, 16]),
    ),
    "cache_affinity": st.builds(policies.cache_affinity, **LIMITS),
    "residual_sjf": st.builds(
        policies.residual_sjf, max_wait_s=st.sampled_from([0.0, 2.0, 30.0]), block_tokens=st.just(4), **LIMITS
    ),
    "reuse_probability": st.builds(
        policies.reuse_probability,
        category=st.just("priority"),
        reuse=st.sampled_from([{0: (0.5, 2.0)}, {0: (0.5, 2.0), 1: (0.9, 0.1)}]),
        **LIMITS,
    ),
    "dlpm": st.builds(policies.dlpm, quantum=st.sampled_from([1.0, 30.0, 1000.0]), **LIMITS),
    "flow_control": st.builds(
        policies.flow_control,
        fairness=st.sampled_from(["global_strict", "round_robin", "least_service"]),
        ordering=st.sampled_from(["fcfs", "deadline"]),
        bands=st.booleans(),
        **LIMITS,
    ),
    "quotas": st.builds(policies.quotas, running=st.sampled_from([1, 2, 9]), **LIMITS),
    "shortest_prompt": st.builds(
        policies.shortest_prompt, tokens_per_s=st.sampled_from([0.0, 3.0]), **LIMITS
    ),
    "weighted_fair": st.builds(
        policies.weighted_fair, shares=st.sampled_from([None, {"a": 2.0, "c": 0.5}]), **LIMITS
    ),
    "vtc": st.builds(
        policies.vtc,
        lift=st.sampled_from(["artifact", "paper", "none"]),
        shares=st.sampled_from([None, {"a": 2.0, "c": 0.5}]),
        max_num_batched_tokens=CHUNKS,
        max_num_seqs=st.sampled_from([1, 3, 16]),
    ),
    "vllm_v0, whole prompts": st.builds(
        policies.vllm_v0,
        preemption=st.sampled_from([None, Swap(cpu_blocks=0), Swap(cpu_blocks=50, out_s=0.1, in_s=0.2)]),
        max_num_batched_tokens=st.sampled_from([20, 70]),
        max_num_seqs=st.sampled_from([1, 3, 16]),
    ),
}

POOLS = {"prefill": st.just(2), "decode": st.just(2)}
OFTEN = st.sampled_from([0.5, 3.0])
CLUSTERED: dict[str, st.SearchStrategy[Policy]] = {
    "arrow": st.builds(
        policies.arrow,
        ttft=st.sampled_from([0.5, 1.5, 8.0]),
        tpot=st.sampled_from([0.5, 2.0]),
        scheduling=st.sampled_from(["slo_aware", "minimal_load", "round_robin"]),
        max_running_tokens=st.sampled_from([None, 10, 60]),
        load=st.sampled_from(["running", "assigned"]),
        period_s=OFTEN,
        **POOLS,
    ),
    "arrow_xllm": st.builds(
        policies.arrow_xllm,
        tpot=st.sampled_from([0.01, 2.0]),
        token_s=st.sampled_from([1e-8, 1e-3]),
        **POOLS,
    ),
    "atlas": st.builds(
        policies.atlas,
        first_queue=st.sampled_from([1.0, 20.0]),
        queues=st.sampled_from([1, 3]),
        preemption=SWAPS,
    ),
    "plas": st.builds(
        policies.plas,
        first_queue=st.sampled_from([1.0, 20.0]),
        queues=st.sampled_from([1, 3]),
        preemption=SWAPS,
    ),
    "shed_late": st.builds(policies.shed_late, after=st.sampled_from([0.5, 4.0])),
    "autoscaled": st.builds(
        policies.autoscaled,
        serving=st.just(2),
        off=st.just(2),
        target=st.sampled_from(["throughput", "latency"]),
        period_s=OFTEN,
        start_s=st.sampled_from([0.0, 2.0, 60.0]),
    ),
    "hpa": st.builds(
        policies.hpa,
        metric=st.sampled_from(["waiting", "kv_usage", "requests"]),
        target=st.sampled_from([None, 0.3, 2.0]),
        serving=st.just(2),
        off=st.just(2),
        period_s=OFTEN,
        start_s=st.sampled_from([0.0, 2.0, 60.0]),
    ),
    "disaggregated": st.builds(
        policies.disaggregated,
        proxy=st.sampled_from(["nixl", "p2p_nccl"]),
        prefill_scheduler=st.sampled_from([None, policies.vllm(max_num_batched_tokens=7).scheduler]),
        **POOLS,
    ),
    "distserve": st.builds(
        policies.distserve,
        prefill_batch=st.sampled_from([1, 16]),
        decode_batch=st.sampled_from([1, 128]),
        most_waiting=st.sampled_from([0.05, 0.5]),
        **POOLS,
    ),
    "dynamo": st.builds(
        policies.dynamo,
        temperature=st.sampled_from([0.0, 0.7]),
        tracking=st.builds(
            policies.DynamoTracking,
            use_kv_events=st.booleans(),
            output_events=st.just(False),
            output_blocks=st.booleans(),
        ),
    ),
    "dynamo_disaggregated": st.builds(
        policies.dynamo_disaggregated, local_below_tokens=st.sampled_from([4, 12, 2048]), **POOLS
    ),
    "sglang_disaggregated": st.builds(
        policies.sglang_disaggregated,
        chunked_prefill_size=PAGED_CHUNKS,
        decode_radix_cache=st.booleans(),
        decode_allocation_policy=st.sampled_from(["early", "prefill_complete"]),
        num_reserved_decode_tokens=st.sampled_from([0, 4]),
        overlap_schedule=st.booleans(),
        **POOLS,
    ),
    "llm_d": st.builds(policies.llm_d, capacity=st.sampled_from([2, 31_250])),
    "llm_d_disaggregated": st.builds(
        policies.llm_d_disaggregated, non_cached_tokens=st.sampled_from([0, 4, 16]), report_s=OFTEN, **POOLS
    ),
    "llumnix": st.builds(
        policies.llumnix,
        dispatch=st.sampled_from(["load", "queue", "balanced", "rr"]),
        metric=st.sampled_from(
            ["remaining_steps", "kv_blocks_ratio", "miss_waiting_tokens", "adaptive_decode"]
        ),
        scheduler=st.just(policies.vllm().scheduler),
    ),
    "llumnix_adaptive": st.builds(
        policies.llumnix_adaptive,
        instances=st.just(4),
        tpot=st.sampled_from([0.05, 2.0]),
        request_s=st.sampled_from([0.0, 0.5]),
        period_s=OFTEN,
    ),
    "mooncake": st.builds(
        policies.mooncake, ttft=st.sampled_from([3.0, 30.0]), rejecting=st.booleans(), **POOLS
    ),
    "power_of_two": st.builds(policies.power_of_two, seed=st.integers(0, 9)),
    "prefix_hash": st.builds(policies.prefix_hash, blocks=st.sampled_from([1, 16])),
    "session_affinity": st.builds(policies.session_affinity, most_requests=st.sampled_from([None, 0, 2])),
    "sglang_router": st.builds(policies.sglang_router, balance_abs_threshold=st.sampled_from([1, 64])),
    "splitwise": st.builds(
        policies.splitwise,
        prompt=st.just(2),
        token=st.just(2),
        most_pending_tokens=st.sampled_from([20, 8192]),
    ),
    "splitwise_router": st.builds(
        policies.splitwise_router,
        st.sampled_from(["round_robin", "jsq", "token_jsq"]),
        prompt=st.just(2),
        token=st.just(2),
    ),
    "tetri_infer": st.builds(
        policies.tetri_infer,
        length=st.sampled_from(["oracle", "score"]),
        bucket_tokens=st.sampled_from([4, 200]),
        chunk_tokens=CHUNKS,
        **POOLS,
    ),
    "dynamo_planner": st.builds(
        policies.dynamo_planner,
        step_s=st.sampled_from([(0.5, 0.01, 1e-4), (1.0, 1e-9, 1e-9), (2.0, 0.2, 0.01)]),
        ttft_s=st.sampled_from([0.1, 3.0, 50.0]),
        itl_s=st.sampled_from([0.1, 1.5, 9.0]),
        serving=st.just(2),
        off=st.just(2),
        period_s=OFTEN,
        start_s=st.sampled_from([0.0, 2.0, 60.0]),
    ),
    "wva": st.builds(
        policies.wva,
        serving=st.just(2),
        off=st.just(2),
        kv_threshold=st.sampled_from([0.2, 0.8]),
        queue_threshold=st.sampled_from([1.0, 5.0]),
        period_s=OFTEN,
        peak_s=st.tuples(OFTEN, OFTEN),
        start_s=st.sampled_from([0.0, 2.0, 60.0]),
    ),
    "vllm_balancer": st.builds(
        policies.vllm_balancer,
        version=st.sampled_from(["0.11", "0.33"]),
        clients=st.sampled_from([1, 3]),
        report_s=OFTEN,
    ),
}
"""Policies that route, for clusters of four instances."""

FEW = settings.default.max_examples // 3
"""Draws of each policy; tests/search draws the mechanisms of all policies together."""


def test_no_policy_is_left_out() -> None:
    assert {name.partition(",")[0] for name in (*STRATEGIES, *CLUSTERED)} == set(names())


@pytest.mark.parametrize("name", CLUSTERED)
@settings(max_examples=FEW)
@given(data=st.data(), workload=workloads())
def test_it_ends_on_a_cluster_and_is_the_same_when_read_back(
    name: str, data: st.DataObject, workload: dict[str, Any]
) -> None:
    policy = data.draw(CLUSTERED[name])
    again = Policy.from_toml(policy.to_toml())
    assert again == policy
    # Sessions and prefixes exclude each other in a trace.
    if name in ("session_affinity", "plas"):
        del workload["prefix"], workload["prefix_block_tokens"]
        count = len(workload["requests"])
        workload["session"] = data.draw(
            st.lists(st.sampled_from(["a", "b", "c"]), min_size=count, max_size=count)
        )
    leapt, stepped = run_each([(policy, True), (again, False)], instances=4, **workload)
    assert leapt.requests.equals(stepped.requests)
    ends = {"finished", "rejected", "gave_up"} if name == "shed_late" else {"finished", "rejected"}
    assert set(leapt.requests["status"]) <= ends
    check(leapt)


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=FEW)
@given(data=st.data(), workload=workloads())
def test_it_ends_and_leaping_changes_nothing(
    name: str, data: st.DataObject, workload: dict[str, Any]
) -> None:
    policy = data.draw(STRATEGIES[name])
    leapt, stepped = run_each([(policy, True), (policy, False)], **workload)
    assert leapt.requests.equals(stepped.requests)
    assert leapt.stats.instances == stepped.stats.instances
    assert leapt.itl == stepped.itl
    rows = leapt.requests
    assert set(rows["status"]) <= {"finished", "rejected"}
    check(leapt)
    done = rows.filter(rows["status"] == "finished")
    assert (done["generated_tokens"] == done["output_tokens"]).all()
