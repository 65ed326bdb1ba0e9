"""What prompts share, in blocks of other sizes than the engine's, and by sessions; counted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paceline


def cached(block_tokens: int, trace: paceline.Trace) -> list[int]:
    """Return the prompt tokens that each request's first lookup found."""
    instance = paceline.Instance(
        cost=paceline.Affine(step_s=0.001), num_blocks=1001, block_tokens=block_tokens
    )
    policy = paceline.policies.vllm(prefix_caching=True)
    return paceline.replay(trace, paceline.Cluster([instance]), policy).requests["cached_tokens"].to_list()


def arriving(prompts: list[int], outputs: list[int] | None = None, **columns: Any) -> paceline.Trace:
    """Return requests so far apart that each arrives after the one before has finished."""
    return paceline.Trace.from_columns(
        arrival=[10.0 * i for i in range(len(prompts))],
        prompt_tokens=prompts,
        output_tokens=outputs or [1] * len(prompts),
        **columns,
    )


def test_several_engine_blocks_to_one_of_the_trace() -> None:
    trace = arriving([128, 128, 100], prefix=[[7, 8], [7, 9], [7, 8]], prefix_block_tokens=64)
    # The third shares both ids, and has six full blocks of 16 in its 100 tokens.
    assert cached(16, trace) == [0, 64, 96]


def test_several_blocks_of_the_trace_to_one_of_the_engine() -> None:
    trace = arriving([64, 64, 64], prefix=[[1, 2, 3, 4], [1, 2, 3, 5], [1, 9, 3, 4]], prefix_block_tokens=16)
    # A block of 32 is shared where both its ids are; the last token is never taken from the cache.
    assert cached(32, trace) == [0, 32, 0]


def test_the_whole_prompt_but_its_last_block_on_an_exact_multiple() -> None:
    trace = arriving([48, 48], prefix=[[1, 2, 3], [1, 2, 3]], prefix_block_tokens=16)
    assert cached(16, trace) == [0, 32]


def test_sizes_that_do_not_go_together_are_refused() -> None:
    trace = arriving([64], prefix=[[1, 2]], prefix_block_tokens=16)
    with pytest.raises(paceline.ConfigError, match="multiple or a divisor of the trace's 16, was 24"):
        cached(24, trace)


def test_a_turn_finds_the_whole_turn_before_it() -> None:
    # 32 + 17 tokens, the last of which has no KV: three full blocks. The third turn does not continue
    # the second, which had 64 + 1 tokens, and the last is of another session.
    trace = arriving([32, 64, 40, 64], [17, 1, 1, 1], session=["a", "a", "a", "b"])
    assert cached(16, trace) == [0, 48, 0, 0]


def test_requests_without_a_session_share_nothing() -> None:
    assert cached(16, arriving([64, 64], session=["a", None])) == [0, 0]


def test_a_trace_of_512_token_blocks(data: Path) -> None:
    trace = paceline.read_trace(data / "traces" / "mooncake_conversation.jsonl.zst").window(0, 60)
    hits = cached(16, trace)
    ids = trace.frame["prefix"].to_list()
    lengths = trace.frame["prompt_tokens"].to_list()
    seen: set[tuple[int, ...]] = set()
    most = []
    for row, length in zip(ids, lengths, strict=True):
        known = max((k for k in range(len(row) + 1) if tuple(row[:k]) in seen or k == 0), default=0)
        most.append(min(known * 512, length - 1))
        seen.update(tuple(row[:k]) for k in range(1, len(row) + 1))
    # No request can find more than the requests before it had; and the trace is known for much reuse.
    assert all(hit <= bound for hit, bound in zip(hits, most, strict=True))
    assert sum(hits) > 0
