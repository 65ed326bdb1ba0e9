"""Timelines of a tier in the host's memory, worked by hand.

The instance has blocks of 16 tokens. A step takes 10 ms, and 1 ms for each token that it computes.
"""

from __future__ import annotations

from typing import Any

import pytest

from paceline import (
    AcceptanceLength,
    Cluster,
    Draft,
    Instance,
    Links,
    Result,
    Speculation,
    Trace,
    policies,
    replay,
)
from paceline.cost import Affine
from paceline.policy import Host, PrefixCache

STEP_MS, BLOCK_BYTES = 10, 1600


def run(
    rows: list[tuple[float, int, int, int]],
    *,
    block_ms: float,
    blocks: int,
    speculation: Speculation | None = None,
    ahead: bool = False,
    sample: float | None = None,
    cancel_ms: dict[int, float] | None = None,
    **tier: Any,
) -> Result:
    """Replay rows of arrival in ms, prompt, output and session, with copies of ``block_ms`` for a block.

    ``cancel_ms``: when clients cancel some of the rows, after they have sent them.
    """
    arrivals, prompts, outputs, sessions = zip(*rows, strict=True)
    after = cancel_ms or {}
    trace = Trace.from_columns(
        arrival=[ms / 1000 for ms in arrivals],
        prompt_tokens=list(prompts),
        output_tokens=list(outputs),
        session=list(sessions),
        cancel_after=[None if row not in after else after[row] / 1000 for row in range(len(rows))],
    )
    fields = {"chunks": 1000, "bytes_per_s": BLOCK_BYTES / (block_ms / 1000), **tier}
    instance = Instance(
        cost=Affine(step_s=STEP_MS / 1000, token_s=0.001),
        num_blocks=blocks + 1,
        kv_bytes=100,
        max_model_len=16 * blocks,
        speculation=speculation,
    )
    cache = PrefixCache(tiers=[Host(**fields)])
    policy = policies.vllm(prefix_caching=cache, max_num_batched_tokens=1000, async_scheduling=ahead)
    return replay(trace, Cluster([instance]), policy=policy, sample=sample)


def column(result: Result, name: str) -> list[Any]:
    values: list[Any] = result.requests[name].to_list()
    return values


# Session 0 stores 6 blocks; session 1 then takes the whole memory of 8 blocks.
PROMPTS = [(0, 96, 1, 0), (1000, 120, 1, 1)]


def test_a_prefix_that_the_gpu_has_lost_is_loaded_and_the_request_waits() -> None:
    result = run([*PROMPTS, (2000, 100, 1, 0)], block_ms=2, blocks=8)
    # It is looked at as it arrives. Nothing runs, so its load begins at once and takes 6 blocks * 2
    # ms. A step without tokens learns of the end at that moment, and the next one computes the 4
    # tokens left in 10 + 4 ms.
    assert column(result, "loaded_tokens") == [0, 0, 96]
    assert column(result, "load_wait") == pytest.approx([0, 0, 0.012])
    assert column(result, "ttft")[2] == pytest.approx(0.012 + 0.014)
    # Of 96, 120 and 100 tokens, 6, 7 and no further block were complete, and the last one's 6 were
    # there.
    assert result.stats.instances[0].tier["stored_blocks"] == 6 + 7
    assert result.stats.instances[0].tier["loaded_blocks"] == 6


def test_a_small_load_is_made_before_the_step() -> None:
    result = run([*PROMPTS, (2000, 100, 1, 0)], block_ms=2, blocks=8, sync_load_tokens=96)
    assert column(result, "load_wait") == [0, 0, 0]
    assert column(result, "ttft")[2] == pytest.approx(0.012 + 0.014), "the step waits for the copy"
    beyond = run([*PROMPTS, (2000, 100, 1, 0)], block_ms=2, blocks=8, sync_load_tokens=95)
    assert column(beyond, "load_wait")[2] > 0


def test_a_load_that_overlaps_with_its_step_costs_a_layer() -> None:
    # 6 blocks take 6 ms, and 4 tokens 10 + 4 ms: of 4 layers the first is loaded after 1.5 ms.
    rows = [*PROMPTS, (2000, 100, 1, 0)]
    result = run(rows, block_ms=1, blocks=8, overlap="layers", layers=4)
    assert column(result, "loaded_tokens") == [0, 0, 96]
    assert column(result, "load_wait") == [0, 0, 0]
    assert column(result, "ttft")[2] == pytest.approx(0.0015 + 0.014)
    # 6 blocks take 60 ms: the last of 4 layers is computed after that.
    slow = run(rows, block_ms=10, blocks=8, overlap="layers", layers=4)
    assert column(slow, "ttft")[2] == pytest.approx(0.060 + 0.014 / 4)


def test_requests_behind_a_load_go_on_and_the_load_waits_for_the_end_of_their_steps() -> None:
    result = run([*PROMPTS, (2000, 100, 1, 0), (2000, 10, 9, 2)], block_ms=5, blocks=12)
    # Of 12 blocks the second request took the 6 that were never used and the last 2 of the first's
    # 6. So 4 are hit, and 2 are loaded. The first step runs the request behind: 10 + 10 ms. The
    # load begins at its end and takes 2 * 5 ms, to 2030. Steps of 11 ms begin at 2020 and 2031; the
    # one at 2031 finds that the copy has ended, and ends at 2042.
    assert column(result, "first_token")[3] == pytest.approx(2.020)
    assert column(result, "cached_tokens")[2] == 64
    assert column(result, "loaded_tokens")[2] == 32
    assert column(result, "load_wait")[2] == pytest.approx(0.042)
    # With one decode beside, the step of its 4 tokens takes 10 + 5 ms.
    assert column(result, "first_token")[2] == pytest.approx(2.042 + 0.015)


def test_a_whole_prompt_in_the_tier_is_loaded_and_its_last_token_computed() -> None:
    result = run([*PROMPTS, (2000, 97, 1, 0), (3000, 120, 1, 1), (4000, 97, 1, 2)], block_ms=1, blocks=8)
    assert result.stats.instances[0].tier["whole_loads"] == 0
    same = [(0, 96, 1, 0), (1000, 120, 1, 1), (2000, 96, 1, 0)]
    again = run(same, block_ms=1, blocks=8)
    # A prompt no longer than the turn before starts a conversation of its own, and shares nothing.
    assert column(again, "loaded_tokens") == [0, 0, 0]


def test_a_tiny_tier_refuses_what_does_not_fit_and_evicts_the_rest() -> None:
    result = run([*PROMPTS, (2000, 100, 1, 0)], block_ms=2, blocks=8, chunks=5)
    tier = result.stats.instances[0].tier
    # Neither the 6 chunks of one prompt nor the 7 of the other fit into 5.
    assert (tier["stored_blocks"], tier["peak_chunks"]) == (0, 0)
    assert tier["refused_stores"] >= 2
    enough = run([*PROMPTS, (2000, 100, 1, 0)], block_ms=2, blocks=8, chunks=7)
    # The 7 chunks of the second prompt take the place of the 6 of the first, which its next turn
    # stores again.
    assert column(enough, "loaded_tokens") == [0, 0, 0]
    assert enough.stats.instances[0].tier["evicted_blocks"] == 6 + 6


def test_a_step_waits_for_the_store_of_a_block_that_it_reuses() -> None:
    # Stores of 100 ms a block. The first request ends at 106 ms; its store of 6 blocks begins then,
    # and ends at 706. The second one takes its blocks at 200 ms: its step waits until then, and
    # runs 10 + 120 ms.
    result = run([(0, 96, 1, 0), (200, 120, 1, 1)], block_ms=100, blocks=8)
    assert column(result, "first_token") == pytest.approx([0.106, 0.706 + 0.130])


def test_a_chunk_is_stored_at_its_second_offer() -> None:
    rows = [*PROMPTS, (2000, 100, 1, 0), (3000, 120, 1, 1), (4000, 110, 1, 0)]
    result = run(rows, block_ms=1, blocks=8, store_threshold=2)
    assert column(result, "loaded_tokens") == [0, 0, 0, 0, 96]


def test_a_chunk_is_stored_once_all_its_tokens_are_known() -> None:
    pairs = Speculation(tokens=1, acceptance=AcceptanceLength(2), method="ngram")
    result = run([(0, 8, 20, 0)], block_ms=1, blocks=8, speculation=pairs, sample=0.006, prompt_only=False)
    # The prompt takes 10 + 8 ms, and each further step 10 + 2, which yields the draft and one token
    # more. So 9, 11, 13, 15 and 17 tokens are known as steps begin at 18, 30, 42, 54 and 66 ms. The
    # step at 54 computes the 16th token, which is a draft then: the one at 66 stores the chunk.
    assert result.timeline is not None
    chunks = dict(zip(result.timeline["time_s"].round(3), result.timeline["tier_chunks"], strict=True))
    assert (chunks[0.06], chunks[0.072]) == (0, 1)


def test_the_last_chunk_of_a_hit_is_not_used_by_a_draft_head() -> None:
    head = Speculation(tokens=1, acceptance=AcceptanceLength(1), draft=Draft(cost=Affine(step_s=1e-12)))
    result = run([*PROMPTS, (2000, 100, 1, 0)], block_ms=2, blocks=9, speculation=head)
    # Without drafts, 96 tokens are loaded. The head's KV of the last chunk depends on what follows.
    assert column(result, "loaded_tokens") == [0, 0, 80]
    # 5 blocks take 2 ms each, and the other 20 tokens 10 + 20 ms.
    assert column(result, "ttft")[2] == pytest.approx(0.010 + 0.030)


def test_a_step_decided_ahead_learns_of_a_load_two_steps_later() -> None:
    rows = [*PROMPTS, (2000, 100, 1, 0), (2000, 10, 9, 2)]
    result = run(rows, block_ms=5, blocks=12, ahead=True)
    # As with steps decided as they start, the step from 2000 to 2020 runs the request behind, the load of
    # 2 blocks takes from then to 2030, and steps of 11 ms begin at 2020, 2031, 2042, 2053 and 2064. Each
    # is given to the worker as the one before it begins, and the worker looks for copies then: for the
    # step from 2042 to 2053, at 2031. The next one has been decided by its end, so the one at 2064 is
    # the first to know. It computes 4 tokens and a decode.
    assert column(result, "load_wait")[2] == pytest.approx(0.064)
    assert column(result, "first_token")[2] == pytest.approx(2.064 + 0.015)


def test_no_request_is_preempted_that_the_step_in_flight_runs() -> None:
    # Three prompts take 10 + 79 ms and 2 of 6 blocks each; three decodes 10 + 3. At 102 ms the second request
    # needs a third block. It gets that of the last request at once; or, if the step was decided when that
    # was running, a step of the first request alone goes between, of 10 + 1 ms.
    rows = [(0, 17, 5, 0), (0, 31, 3, 1), (0, 31, 3, 2)]
    results = [run(rows, block_ms=0.001, blocks=6, ahead=ahead) for ahead in (False, True)]
    assert [column(result, "preemptions") for result in results] == [[0, 0, 1]] * 2
    finishes = [column(result, "finish")[1] for result in results]
    assert finishes == pytest.approx([0.102 + 0.012, 0.102 + 0.011 + 0.012])


def test_the_blocks_of_a_cancelled_load_are_free_once_it_has_ended() -> None:
    # The load of 6 blocks takes from 2000 to 2012 ms, and its client cancels at 2005. The request of 2006
    # needs 3 blocks, of which 2 are free until then. Its step takes 10 + 48 ms.
    rows = [*PROMPTS, (2000, 100, 1, 0), (2006, 48, 1, 2)]
    result = run(rows, block_ms=2, blocks=8, cancel_ms={2: 5})
    assert column(result, "status")[2] == "cancelled"
    assert column(result, "ttft")[3] == pytest.approx(0.006 + 0.058)
    assert result.stats.instances[0].tier["loaded_blocks"] == 6


def test_a_request_that_is_cancelled_leaves_what_it_has_computed_in_the_tier() -> None:
    # The prompt takes 42 ms, and each decode 11. The 16th decode, from 207 to 218 ms, fills the third chunk.
    # Cancelled before it begins, the request has stored two; in its course, three: the step is not cut off.
    stored = {}
    for ms in (206, 215):
        result = run([(0, 32, 90, 0)], block_ms=1, blocks=8, cancel_ms={0: ms}, prompt_only=False)
        stored[ms] = result.stats.instances[0].tier["stored_blocks"]
    assert stored == {206: 2, 215: 3}


def test_both_sides_of_a_hand_over_keep_chunks_in_their_tiers() -> None:
    # The prompt of 96 tokens is 6 blocks. The decode instance offers them as it admits the request, and 2
    # more with the output: the KV of the last token is not written, so 96 + 39 tokens are 8 blocks.
    cache = PrefixCache(tiers=[Host(chunks=100, bytes_per_s=16e5, prompt_only=False)])
    scheduler = policies.vllm(prefix_caching=cache).scheduler_of(0)
    instance = Instance(
        cost=Affine(step_s=0.01, token_s=0.001), num_blocks=20, kv_bytes=100, max_model_len=300
    )
    cluster = Cluster([instance, instance], links=Links(gbps=1))
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[96], output_tokens=[40])
    result = replay(trace, cluster, policy=policies.disaggregated(scheduler=scheduler))
    assert [one.tier["stored_blocks"] for one in result.stats.instances] == [6, 8]
