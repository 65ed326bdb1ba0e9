"""A replay has the same bytes on any number of threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paceline
from paceline import Affine, Cluster, Instance, Trace, policies
from paceline._cores import ENVIRONMENT
from paceline.policy import Policy, affinity, first_of, inst, pick, reject, req, round_robin
from paceline.result import Result
from unit.policies.scenario import workloads

RULES = {
    "turns": round_robin(),
    "random": pick(min=0, ties="random"),
    "larger of two": pick(max=inst.total_blocks, among=2, ties="next"),
    "tenant": first_of(affinity("tenant"), pick(min=inst.index)),
    "long ones rejected": first_of(reject(when=req.prompt_tokens > 20), round_robin()),
    "never asked for the last": first_of(affinity("session"), pick(min=inst.running)),
}
SCHEDULERS = {
    "vllm": policies.vllm(prefix_caching=True, async_scheduling=True).scheduler,
    "vllm, ranked": policies.vllm(policy="priority", max_num_seqs=3).scheduler,
    "sarathi": policies.sarathi(chunk_size=7, max_num_seqs=4).scheduler,
}


def on(threads: int, trace: Trace, cluster: Cluster, policy: Policy, **settings: Any) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENVIRONMENT, str(threads))
        return paceline.replay(trace, cluster, policy, **settings)


@settings(max_examples=12)
@given(
    workload=workloads(),
    rule=st.sampled_from(sorted(RULES)),
    scheduler=st.sampled_from(sorted(SCHEDULERS)),
    sizes=st.lists(st.integers(0, 40), min_size=2, max_size=5),
    until=st.sampled_from([None, None, 6.5]),
)
def test_any_number_of_threads_gives_the_same_result(
    workload: dict[str, Any], rule: str, scheduler: str, sizes: list[int], until: float | None
) -> None:
    shapes = workload.pop("requests")
    columns = dict(
        zip(("arrival", "prompt_tokens", "output_tokens"), map(list, zip(*shapes, strict=True)), strict=True)
    )
    cost, blocks = Affine(step_s=1.0, token_s=workload.pop("token_s"), kv_token_s=0.0), workload.pop("blocks")
    size = workload.pop("block_tokens")
    trace = Trace.from_columns(**columns, **workload, session=[f"s{row % 3}" for row in range(len(shapes))])
    cluster = Cluster(
        [Instance(cost=cost, num_blocks=blocks + 1 + more, block_tokens=size) for more in sizes],
        frontend_s=0.25,
    )
    policy = Policy(name="apart", scheduler=SCHEDULERS[scheduler], on_arrival=RULES[rule])
    alone, two, three = (on(threads, trace, cluster, policy, until=until) for threads in (1, 2, 3))
    assert two == alone
    assert three == alone
    assert two.summary().equals(alone.summary())


def test_files_are_the_same_bytes_and_progress_is_reported(tmp_path: Path) -> None:
    """Of a trace that is long enough for reports, which come at most ten times a second."""
    trace = paceline.synthesize("azure-conv", requests=60_000, rate=200.0, seed=3)
    cluster = Cluster(8 * [Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    policy = policies.vllm(routing="round_robin")
    told: list[Any] = []
    for threads in (1, 2):
        on(threads, trace, cluster, policy, leap=False, out=tmp_path / f"{threads}", progress=told.append)
    one, two = (sorted((tmp_path / f"{threads}").iterdir()) for threads in (1, 2))
    assert [path.name for path in one] == [path.name for path in two]
    for first, second in zip(one, two, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name
    assert all(at.total == 60_000 and 0 <= at.finished <= 60_000 for at in told)


def test_an_error_is_that_of_one_thread() -> None:
    """Twenty steps of a million seconds are past the clock, which holds 186 days."""
    trace = Trace.from_columns(arrival=[0.0, 1.0, 2.0], prompt_tokens=[5, 5, 5], output_tokens=[2, 2, 20])
    steps = [Affine(step_s=seconds, token_s=0.0, kv_token_s=0.0) for seconds in (1.0, 1.0, 1e6)]
    cluster = Cluster([Instance(cost=cost, num_blocks=20) for cost in steps])
    said = []
    for threads in (1, 2):
        with pytest.raises(paceline.ClockError) as raised:
            on(threads, trace, cluster, policies.vllm(routing="round_robin"))
        said.append(str(raised.value))
    assert said[0] == said[1]
    assert "on instance 2" in said[0]


def test_the_number_of_threads_must_be_one() -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[5], output_tokens=[2])
    cluster = Cluster([Instance(cost=Affine(step_s=1.0, token_s=0.0, kv_token_s=0.0), num_blocks=20)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENVIRONMENT, "all")
        with pytest.raises(paceline.ConfigError, match="PACELINE_THREADS must be a whole number"):
            paceline.replay(trace, cluster)
