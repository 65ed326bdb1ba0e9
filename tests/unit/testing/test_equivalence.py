"""`assert_equivalent` passes exact policies, and names the first difference of any other."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import paceline
from paceline.testing import BrokenInvariant, assert_equivalent, equivalence, overload

POLICIES = {
    "vllm": paceline.policies.vllm(max_num_batched_tokens=8, max_num_seqs=4),
    "vllm-priority": paceline.policies.vllm(policy="priority", max_num_seqs=4),
    "vllm-cached": paceline.policies.vllm(prefix_caching=True, max_num_batched_tokens=16),
    "vllm-v0": paceline.policies.vllm_v0(),
    "sarathi": paceline.policies.sarathi(chunk_size=16, max_num_seqs=4),
    "static": paceline.policies.static(size=3, wait_s=0.02),
    "sglang-lpm": paceline.policies.sglang(schedule_policy="lpm", prefix_caching=True),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
def test_the_policies_are_exact(policy: paceline.Policy) -> None:
    assert_equivalent(policy, examples=5, threads=2)


def test_a_trace_and_a_cluster_of_ones_own(cluster: paceline.Cluster) -> None:
    assert_equivalent(POLICIES["vllm"], trace=overload(requests=60))
    assert_equivalent(POLICIES["vllm"], trace=overload(requests=60), cluster=cluster)
    assert_equivalent(POLICIES["vllm"], cluster=cluster, examples=3)


@pytest.fixture
def cluster() -> paceline.Cluster:
    return paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.02), num_blocks=33)])


@pytest.mark.parametrize(
    ("number", "statement", "differs"),
    [
        (5, "a replay that leaps", lambda calls, leap: not leap),
        (6, "the same replay again", lambda calls, leap: calls == 5),
        (6, "replays beside each other", lambda calls, leap: calls == 7),
        (7, "rows in another order", lambda calls, leap: calls == 8),
    ],
)
def test_a_difference_is_reported_with_its_request_and_column(
    number: int, statement: str, differs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = equivalence.replay
    calls = 0

    def faulty(*args: Any, leap: bool = True, **others: Any) -> paceline.Result:
        nonlocal calls
        calls += 1
        if not differs(calls, leap):
            return exact(*args, leap=leap, **others)
        trace = args[0].frame.with_columns(output_tokens=args[0].frame["output_tokens"].clip(1, 39))
        return exact(paceline.Trace(trace), *args[1:], leap=leap, **others)

    monkeypatch.setattr(equivalence, "replay", faulty)
    with pytest.raises(BrokenInvariant, match=statement) as caught:
        assert_equivalent(POLICIES["vllm"], trace=overload(requests=40), threads=2)
    # Every tenth row asks for 40 tokens, of which the fault leaves 39: row 5 is the first.
    assert (caught.value.number, caught.value.request) == (number, 5)
    assert caught.value.found


def test_without_hypothesis_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "hypothesis"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "paceline.testing.strategies", raising=False)
    monkeypatch.delattr("paceline.testing.strategies", raising=False)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ImportError, match=r"pip install 'paceline\[testing\]'"):
        assert_equivalent(POLICIES["vllm"])
    assert_equivalent(POLICIES["vllm"], trace=overload(requests=20), threads=1)
