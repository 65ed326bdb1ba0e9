"""When a tier in the host's memory stores chunks, worked by hand.

The instance has blocks of 16 tokens. A step takes 10 ms, and 1 ms for each token that it computes.
"""

from __future__ import annotations

from typing import Any

import pytest

from paceline import Result
from scenarios.test_kv_tiers import column, run


def tier(result: Result) -> dict[str, Any]:
    used = result.stats.instances[0].tier
    assert used is not None
    return used


@pytest.mark.parametrize(("write", "chunks"), [("completed", 2), ("through", 1)])
def test_output_is_inserted_as_its_request_ends(write: str, chunks: int) -> None:
    # The prompt of 24 tokens takes 34 ms, each of 19 decodes 11. The 8th one, to 122 ms, computes the 32nd
    # token. The last one ends at 243 ms, with 43 tokens computed: 2 blocks.
    result = run([(0, 24, 20, 0)], block_ms=1, blocks=8, write=write, prompt_only=False, sample=0.1)
    assert result.timeline is not None
    stored = dict(zip(result.timeline["time_s"].round(3), result.timeline["tier_chunks"], strict=True))
    assert (stored[0.1], stored[0.2]) == (1, chunks)
    assert tier(result)["stored_blocks"] == 2


def test_a_chunk_is_stored_as_a_second_request_inserts_it_while_the_gpu_has_it() -> None:
    # 96 tokens are 6 blocks, which the next turn finds on the GPU and inserts again.
    turns = [(0, 96, 1, 0), (1000, 100, 1, 0)]
    assert tier(run(turns, block_ms=1, blocks=8, write="selective"))["stored_blocks"] == 6
    # A prompt of 120 tokens takes all 8 blocks: the turn after it inserts chunks that the GPU has lost.
    lost = [(0, 96, 1, 0), (500, 120, 1, 1), (1000, 100, 1, 0)]
    assert tier(run(lost, block_ms=1, blocks=8, write="selective"))["stored_blocks"] == 0
    # Offers are counted whether the GPU has a chunk or not.
    assert tier(run(lost, block_ms=1, blocks=8, store_threshold=2))["stored_blocks"] == 6


def test_a_step_waits_for_what_the_gpu_loses() -> None:
    rows = [(0, 96, 1, 0), (1000, 120, 1, 1), (2000, 100, 1, 0)]
    result = run(rows, block_ms=2, blocks=8, write="back", prompt_only=False)
    # The second prompt takes 8 blocks: 2 that were never used, and the 6 of the first. Copying these takes
    # 6 * 2 ms; then its step runs 10 + 120 ms.
    assert column(result, "ttft")[1] == pytest.approx(0.012 + 0.130)
    # The third one is loaded into 6 blocks: the last one of the second prompt, which is not full, and 5 that
    # are lost. Copying these takes 5 * 2 ms, the load 6 * 2 ms. The step that computes the other 4 tokens
    # takes another block: 2 ms, and 10 + 4 ms.
    assert column(result, "loaded_tokens") == [0, 0, 96]
    assert column(result, "load_wait")[2] == pytest.approx(0.010 + 0.012)
    assert column(result, "ttft")[2] == pytest.approx(0.022 + 0.002 + 0.014)
    assert tier(result)["stored_blocks"] == 6 + 5 + 1


def test_a_decode_waits_for_the_block_that_it_takes() -> None:
    # The first request leaves 6 blocks with a content, and 2 others, which the second one takes for its 17
    # tokens. Its 16th decode computes the 33rd token: its third block was the last of the first request.
    rows = [(0, 96, 1, 0), (1000, 17, 20, 1)]
    result = run(rows, block_ms=5, blocks=8, write="back", prompt_only=False)
    assert tier(result)["stored_blocks"] == 1
    assert column(result, "finish")[1] == pytest.approx(1.0 + 0.027 + 19 * 0.011 + 0.005)


def test_what_does_not_fit_is_lost() -> None:
    # The 6 blocks are lost in one step, and copied as one: a tier of 4 chunks refuses 2.
    result = run(
        [(0, 96, 1, 0), (1000, 120, 1, 1)], block_ms=2, blocks=8, write="back", prompt_only=False, chunks=4
    )
    assert (tier(result)["stored_blocks"], tier(result)["refused_stores"]) == (4, 2)
