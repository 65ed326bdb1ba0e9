"""A scanned trace gives the result of the trace in memory, bit for bit, in whatever chunks it is read."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paceline
from paceline import Affine, Cluster, Instance, Trace, policies
from paceline.policy import Policy
from paceline.result import Result
from unit.policies.scenario import workloads
from unit.policies.test_every_policy import CLUSTERED, STRATEGIES

SESSIONS = {"session_affinity", "plas"}
"""Policies that read the column session."""
NAMES = sorted({*STRATEGIES, *CLUSTERED} - SESSIONS)
CHUNKS = st.sampled_from([1, 2, 7, 100])


def in_both_ways(
    trace: Trace, cluster: Cluster, policy: Policy, chunk: int, **settings: Any
) -> tuple[Result, Result, Result]:
    """Return the result in memory, the streamed one, and what is read of all its files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{trace.name}.parquet"
        trace.write(path)
        scan = paceline.scan_trace(path, chunk=chunk)
        streamed = paceline.replay(scan, cluster, policy, out=f"{folder}/out", **settings)
        loaded = paceline.load_result(f"{folder}/out")
        streamed.summary(), streamed.totals()
        return paceline.replay(trace, cluster, policy, **settings), streamed, loaded


def check_equal(found: tuple[Result, Result, Result]) -> None:
    replayed, streamed, loaded = found
    # Requests, counters, gaps between tokens, and the provenance with the hash of the trace.
    assert loaded == replayed, "loaded"
    assert streamed.summary().equals(replayed.summary()), "summary"
    assert streamed.totals() == replayed.totals()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=3)
@given(data=st.data(), workload=workloads(), chunk=CHUNKS, until=st.sampled_from([None, None, 6.5]))
def test_a_policy_streams_as_it_replays(
    name: str, data: st.DataObject, workload: dict[str, Any], chunk: int, until: float | None
) -> None:
    policy = data.draw(STRATEGIES.get(name, CLUSTERED.get(name, st.nothing())))
    shapes = workload.pop("requests")
    columns = dict(
        zip(("arrival", "prompt_tokens", "output_tokens"), map(list, zip(*shapes, strict=True)), strict=True)
    )
    instance = Instance(
        cost=Affine(step_s=1.0, token_s=workload.pop("token_s"), kv_token_s=0.0),
        num_blocks=workload.pop("blocks") + 1,
        block_tokens=workload.pop("block_tokens"),
    )
    count = len(shapes)
    cancels = st.lists(st.sampled_from([None, None, 0.5, 9.0]), min_size=count, max_size=count)
    optional = {"cancel_after": data.draw(cancels), "weight": [0.5 * row for row in range(count)]}
    trace = Trace.from_columns(**columns, **workload, **optional)
    pools = 1 if policy.pools is None else sum(policy.pools.sizes.values())
    cluster = Cluster(max(pools, 4 if name in CLUSTERED else 1) * [instance])
    refused = ""
    if policy.to_wire(instances=len(cluster.instances), tenants=())["routing"].get("books"):
        refused = r"routing\.books: must be null where the trace"
    elif name == "sglang, hierarchical cache":
        refused = r"instances\[0\]\.tier: must be null where the trace"
    if refused:
        with pytest.raises(paceline.ConfigError, match=refused):
            in_both_ways(trace, cluster, policy, chunk, until=until)
        return
    check_equal(in_both_ways(trace, cluster, policy, chunk, until=until))


@pytest.mark.parametrize(
    "policy",
    [
        policies.vllm(prefix_caching=True, async_scheduling=True),
        policies.vllm(prefix_caching=True, max_num_seqs=3, routing="fewest_tokens"),
    ],
)
@settings(max_examples=10)
@given(data=st.data(), chunk=CHUNKS)
def test_prefixes_drafts_and_cancels_stream(policy: Policy, data: st.DataObject, chunk: int) -> None:
    """Prompts of a few families on a small cache, so that contents are evicted, forgotten and come again."""
    count = data.draw(st.integers(20, 60))
    lists = st.lists(st.integers(0, 2), min_size=1, max_size=8)
    families = [data.draw(lists) for _ in range(4)]
    chosen = [families[data.draw(st.integers(0, 3))] for _ in range(count)]
    # The last block of a third of the prompts is of no other.
    prefixes = [[*ids, 100 + row] if row % 3 == 0 else ids for row, ids in enumerate(chosen)]
    cancels = st.sampled_from([None, None, 1, 3])
    trace = Trace.from_columns(
        arrival=[0.7 * row for row in range(count)],
        prompt_tokens=[4 * len(ids) + row % 4 for row, ids in enumerate(prefixes)],
        output_tokens=[1 + 5 * row % 13 for row in range(count)],
        prefix=prefixes,
        prefix_block_tokens=4,
        cancel_after_tokens=[data.draw(cancels) for _ in range(count)],
    )
    drafts = paceline.Speculation(tokens=2, acceptance=paceline.AcceptanceLength(1.7), method="ngram")
    speculates = data.draw(st.booleans()) and not policy.scheduler.schedule_ahead  # type: ignore[union-attr]
    instance = Instance(
        cost=Affine(step_s=0.2, token_s=0.01, kv_token_s=0.0),
        num_blocks=24,
        block_tokens=4,
        **({"speculation": drafts} if speculates else {}),
    )
    check_equal(in_both_ways(trace, Cluster([instance, instance]), policy, chunk))
