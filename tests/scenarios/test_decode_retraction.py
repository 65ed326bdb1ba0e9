"""Requests that are retracted where they decode, and steps that run past their ends, worked by hand."""

from __future__ import annotations

import pytest

import paceline
from paceline import Affine, Cluster, Instance, Result, Trace, policies
from paceline.policy import Swap


def replayed(outputs: list[int], backup: Swap | None = None, *, overlaps: bool = False) -> Result:
    """Replay prompts of three tokens on twelve blocks of one where they decode; a step takes a second."""
    count = len(outputs)
    trace = Trace.from_columns(arrival=[0.0] * count, prompt_tokens=[3] * count, output_tokens=outputs)
    policy = policies.sglang_disaggregated(
        num_reserved_decode_tokens=0,
        retraction_backup=backup,
        prefix_caching=False,
        overlap_schedule=overlaps,
    )
    cost = Affine(step_s=1.0)
    roomy, tight = (Instance(block_tokens=1, num_blocks=blocks, cost=cost) for blocks in (101, 13))
    return paceline.replay(trace, Cluster([roomy, tight]), policy, record=(0.0, 100.0))


@pytest.mark.parametrize(("block_s", "finish"), [(0.0, [6.0, 8.0]), (0.1, [6.6, 9.2])])
def test_a_retracted_request_returns_once_its_tokens_are_free(block_s: float, finish: list[float]) -> None:
    """Both have four tokens at 4, and all blocks: the second is retracted with the KV of six tokens.

    Five blocks are free at 5: the first holds seven. At 6 it ends, and the second computes its fifth token.
    Six blocks are copied in the step at 4, and in the one at 6.
    """
    result = replayed([6, 6], Swap(cpu_blocks=100, out_s=block_s, in_s=block_s))
    assert result.requests["finish"].to_list() == pytest.approx(finish, abs=1e-9)
    assert result.requests["preemptions"].to_list() == [0, 1]
    decodes = result.steps.filter(result.steps["instance"] == 1)
    assert [list(rows) for rows in decodes["requests"]] == [[0, 1]] * 3 + [[0]] * 2 + [[1]] * 2
    assert decodes["preempted"].to_list() == [[], [], [], [1], [], [], []]


def test_without_room_on_the_host_it_computes_its_kv_again() -> None:
    """Its prompt and four tokens are a prefill on the instance that decodes, which yields the fifth."""
    result = replayed([6, 6], Swap(cpu_blocks=5))
    decodes = result.steps.filter(result.steps["instance"] == 1)
    assert [list(tokens) for tokens in decodes["tokens"]][-2:] == [[7], [1]]
    assert result.requests["finish"].to_list() == [6.0, 8.0]


def test_a_step_that_is_decided_ahead_runs_past_the_end_of_a_request() -> None:
    """The first has its last token at 3. The step that was decided before that computes another one.

    The replay ends before such a step of the second has ended.
    """
    result = replayed([3, 5], overlaps=True)
    assert result.requests["finish"].to_list() == [3.0, 5.0]
    decodes = result.steps.filter(result.steps["instance"] == 1)
    assert [list(rows) for rows in decodes["requests"]] == [[0, 1]] * 3 + [[1]] * 2
    assert result.instances["discarded_tokens"].to_list() == [0, 1]
