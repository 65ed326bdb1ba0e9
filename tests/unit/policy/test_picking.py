"""Picking among more instances than a rule checks one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import paceline
from paceline import inst
from paceline.policy import Policy, first_of, pick

INSTANCES = 16


@pytest.fixture(scope="module")
def trace() -> paceline.Trace:
    draw = np.random.default_rng(3)
    return paceline.Trace.from_columns(
        arrival=np.cumsum(draw.exponential(1 / 60, 3_000)),
        prompt_tokens=draw.integers(100, 1_000, 3_000),
        output_tokens=draw.integers(10, 400, 3_000),
    )


@pytest.mark.parametrize("most", [0, 3, 6, 12, 1_000])
@pytest.mark.parametrize("field", ["kv_tokens", "requests"])
def test_a_pick_is_the_same_as_by_a_scan_in_python(trace: paceline.Trace, field: str, most: int) -> None:
    """The condition holds for no instance, a few, or all; if for few, mostly not for the lowest."""

    def scan(request: Any, instances: Sequence[Any]) -> int:
        free = [index for index in range(INSTANCES) if instances[index].running <= most]
        return min(free or range(INSTANCES), key=lambda index: getattr(instances[index], field))

    lowest = getattr(inst, field)
    rule = first_of(pick(min=lowest, where=inst.running <= most), pick(min=lowest))
    cluster = paceline.Cluster(INSTANCES * [paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    picked, scanned = (
        paceline.replay(trace, cluster, Policy(name="p", on_arrival=on_arrival)).requests["instance"]
        for on_arrival in (rule, scan)
    )
    assert picked.to_list() == scanned.to_list()
    assert picked.n_unique() == INSTANCES
