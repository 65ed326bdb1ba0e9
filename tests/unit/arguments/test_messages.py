"""An argument of the wrong type is named, with what would be right and what it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import paceline
from paceline import Affine, Cluster, Instance, PacelineError, Policy, Trace, policies

TRACE = Trace.from_columns(arrival=[0.0], prompt_tokens=[8], output_tokens=[2])
CLUSTER = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=101)])
wrong: Any = paceline


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: paceline.replay(TRACE, CLUSTER, wrong.__name__),
            "policy of replay() must be a Policy, such as paceline.policies.vllm() or None, was 'paceline'",
        ),
        (
            lambda: paceline.replay(None, CLUSTER),  # type: ignore[arg-type]
            "trace of replay() must be a Trace, as paceline.read_trace(path) returns or a TraceScan, as "
            "paceline.scan_trace(path) returns, was None",
        ),
        (
            lambda: paceline.replay(TRACE, CLUSTER.instances),  # type: ignore[arg-type]
            "cluster of replay() must be a Cluster, such as Cluster([Instance(model=..., gpu=...)]), was",
        ),
        (
            lambda: paceline.replay(TRACE, CLUSTER, pace=0.1),  # type: ignore[arg-type]
            "pace of replay() must be a Pace, such as Pace(tpot=0.1) or None, was 0.1",
        ),
        (
            lambda: paceline.replay(TRACE, CLUSTER, until="9"),  # type: ignore[arg-type]
            "until of replay() must be a number or None, was '9'",
        ),
        (
            lambda: paceline.replay(TRACE, CLUSTER, progress=3),  # type: ignore[arg-type]
            "progress of replay() must be a function or None, was 3",
        ),
        (
            lambda: paceline.replay(TRACE, CLUSTER).attainment(2.0),  # type: ignore[arg-type]
            "slo of Result.attainment() must be an SLO, such as SLO(ttft=1.0), ",
        ),
        (
            lambda: policies.vllm(max_num_seqs="many"),  # type: ignore[arg-type]
            "max_num_seqs of vllm() must be a whole number or None, was 'many'",
        ),
        (
            lambda: policies.vllm(prefix_caching=1),  # type: ignore[arg-type]
            "prefix_caching of vllm() must be True or False or a PrefixCache, was 1",
        ),
        (
            lambda: Policy.from_toml("name = 'a'\n[scheduler]\nclasses = 'x'"),
            "classes must be tables, [[scheduler.classes]], was 'x'",
        ),
        (lambda: Policy.from_toml("name = 'a'\nscheduler = ['x']"), "scheduler must be a table, was ['x']"),
        (lambda: Policy.from_toml("name = 3"), "name of a Policy must be a string, was 3"),
        (lambda: Policy.from_toml("a = " + "[" * 5000), "a policy must be TOML"),
        (lambda: Policy.from_toml("a = " + "9" * 5000), "a policy must be TOML"),
        (
            lambda: Instance(cost=Affine(step_s=0.01), num_blocks=10**5000),
            "num_blocks of an Instance must be at most 4294967295 (the engine numbers blocks in 32 bits), "
            "was a value of type int that cannot be printed",
        ),
    ],
)
def test_the_message_names_the_argument_and_what_would_be_right(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(PacelineError) as raised:
        call()
    assert message in str(raised.value)
