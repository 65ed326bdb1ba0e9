"""Compositions in which prefills would continue in blocks that are not kept for them."""

from __future__ import annotations

from typing import Any

import pytest

import paceline
from paceline.policy import Policy, Scheduler
from paceline.policy.stages import Admit, Decodes, Groups, Layered, Prefills

STAGES: dict[str, tuple[Any, ...]] = {
    "prefills": (Decodes(), Prefills(), Admit()),
    "prefills first": (Prefills(), Admit(), Decodes()),
    "layered": (Decodes(), Layered(layers=4, groups=Groups(most=2))),
}


def replayed(scheduler: Scheduler) -> paceline.Result:
    """A prompt of several chunks behind a request that takes the blocks it will need."""
    trace = paceline.Trace.from_columns(arrival=[0.0, 0.0], prompt_tokens=[4, 14], output_tokens=[8, 1])
    instance = paceline.Instance(cost=paceline.Affine(step_s=1.0), num_blocks=5, block_tokens=4)
    return paceline.replay(trace, paceline.Cluster([instance]), Policy(name="mine", scheduler=scheduler))


@pytest.mark.parametrize(
    ("stages", "exclusive", "allocation"),
    [
        ("prefills", False, "chunk"),
        ("prefills", False, "chunk_if_all_fits"),
        ("prefills first", True, "chunk"),
        ("layered", False, "chunk"),
        ("layered", False, "chunk_if_all_fits"),
    ],
)
def test_blocks_that_are_not_kept_are_refused(stages: str, exclusive: bool, allocation: Any) -> None:
    with pytest.raises(paceline.PolicyError, match="allocation must be 'sequence' where Prefills"):
        Scheduler(
            max_num_batched_tokens=8,
            stages=STAGES[stages],
            exclusive_prefill=exclusive,
            allocation=allocation,
        )


@pytest.mark.parametrize(
    ("stages", "exclusive", "allocation"),
    [
        ("prefills", False, "sequence"),
        ("prefills first", True, "chunk_if_all_fits"),
        ("layered", False, "sequence"),
    ],
)
def test_blocks_that_are_kept_are_never_more_than_there_are(
    stages: str, exclusive: bool, allocation: Any
) -> None:
    scheduler = Scheduler(
        max_num_batched_tokens=8,
        stages=STAGES[stages],
        exclusive_prefill=exclusive,
        allocation=allocation,
    )
    result = replayed(scheduler)
    assert result.requests["status"].to_list() == ["finished", "finished"]
    assert result.stats.instances[0].peak_blocks <= 4
