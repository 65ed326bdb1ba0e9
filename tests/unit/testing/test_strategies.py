"""The strategies often draw the events that they promise to make common."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, Phase, given, settings

import paceline
from paceline.testing.strategies import clusters, instances, policies, traces


def test_much_happens_in_what_is_drawn() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=120, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(trace=traces(), cluster=clusters(), policy=policies())
    def look(trace: paceline.Trace, cluster: paceline.Cluster, policy: paceline.Policy) -> None:
        result = paceline.replay(trace, cluster, policy)
        budget = policy.scheduler.limits((2048, 256))[0]
        seen["replays"] += 1
        seen["preemptions"] += result.totals().preemptions > 0
        seen["rejections"] += "rejected" in result.requests["status"].to_list()
        seen["together"] += trace.frame["arrival"].n_unique() < len(trace)
        seen["chunks"] += bool((trace.frame["prompt_tokens"] > budget).any())
        seen["queues"] += (result.requests["queueing"].max() or 0.0) > 0
        seen["hits"] += any(instance.prefix_hits for instance in result.stats.instances)
        seen["fleets"] += len(cluster.instances) > 1
        seen[policy.name] += 1

    look()
    for what in ("preemptions", "chunks", "fleets"):
        assert seen[what] >= seen["replays"] // 10, (what, seen)
    assert seen["rejections"] >= seen["replays"] // 40, seen
    for what in ("together", "queues"):
        assert seen[what] >= seen["replays"] // 2, (what, seen)
    assert seen["hits"] > 0
    assert {"vllm", "vllm-0.11", "vllm-v0", "layered-prefill", "sarathi", "orca", "static"} <= set(seen)


@given(trace=traces(min_requests=3, max_requests=5, max_prompt_tokens=7, max_output_tokens=2, apart=True))
def test_a_trace_keeps_the_bounds_asked_for(trace: paceline.Trace) -> None:
    assert 3 <= len(trace) <= 5
    assert trace.frame["prompt_tokens"].max() <= 7
    assert trace.frame["output_tokens"].max() <= 2
    assert trace.frame["arrival"].n_unique() == len(trace)


@given(instance=instances(longest_tokens=100))
def test_an_instance_holds_at_most_ten_of_the_longest(instance: paceline.Instance) -> None:
    assert 1 <= instance.usable_blocks <= max(1, 1000 // instance.block_tokens)


@given(cluster=clusters(max_instances=2))
def test_a_cluster_has_as_many_instances_as_asked_for(cluster: paceline.Cluster) -> None:
    assert 1 <= len(cluster.instances) <= 2


@given(policy=policies())
def test_a_policy_survives_toml(policy: paceline.Policy) -> None:
    assert paceline.Policy.from_toml(policy.to_toml()) == policy
