"""The hit rate of an LRU prefix cache at every capacity, from one pass over a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from paceline import _check, _native
from paceline._arguments import typed
from paceline.deployment.pages import pages_of
from paceline.errors import ConfigError, TraceError
from paceline.model import Model
from paceline.trace.model import Trace

__all__ = ["SCHEMA", "block_gib", "block_tokens_of", "hit_curve"]

SCHEMA: Final = pl.Schema(
    {
        "capacity_blocks": pl.UInt64(),
        "capacity_gib": pl.Float64(),
        "token_hit_rate": pl.Float64(),
        "block_hit_rate": pl.Float64(),
        "share_of_ideal": pl.Float64(),
    }
)
"""The columns of a curve."""

_GIB: Final = 2**30
_MOST_BLOCKS: Final = 2**32 - 2
_ENGINE_BLOCK_TOKENS: Final = 16
"""vLLM's default, where a trace does not cut prompts into blocks."""


@typed(ConfigError)
def hit_curve(
    trace: Trace,
    *,
    capacities: Sequence[int] | None = None,
    block_tokens: int | None = None,
    model: str | Model | None = None,
    kv_dtype: str = "auto",
    full_blocks: bool = False,
    answers: bool = True,
) -> pl.DataFrame:
    """Return the hit rate of a prefix cache with LRU eviction against its capacity.

    Requests are taken one after another, in the order of the trace. Each looks up its prompt's blocks from
    the first on, up to the first that is not cached, and then uses all its blocks, those of its answer
    included, the last first: so a block is evicted before the blocks that it continues. For this sequence
    of uses the curve is exact at every capacity (stack distances, Mattson et al. 1970). A replay differs:
    requests run at the same time, a request holds its blocks while it runs, and answers are cached when
    they end. :func:`replayed_hits` replays.

    Parameters
    ----------
    trace
        With ``prefix`` or ``session``.
    capacities
        Blocks at which the curve is evaluated. By default two for each doubling, and the least at which the
        hit rate is that of a cache without a limit.
    block_tokens
        Tokens in a block; by default ``prefix_block_tokens`` of the trace, or 16 where it has only sessions.
    model
        The model whose KV is cached, for ``capacity_gib``: a name from the catalog, or a
        :class:`~paceline.Model`.
    kv_dtype
        Type of the KV cache's numbers, as of an :class:`~paceline.Instance`.
    full_blocks
        Whether only full blocks are cached, and the last token of a prompt is always computed, as in vLLM.
        By default a block that a prompt begins is cached and found likewise, as
        :func:`~paceline.synthesis.ideal_hit_rate` counts.
    answers
        Whether blocks of answers are cached.

    Returns
    -------
    polars.DataFrame
        A row for each capacity: ``capacity_blocks``; ``capacity_gib``, null without a model;
        ``token_hit_rate`` and ``block_hit_rate``, the shares of all prompts' tokens and blocks that are
        found; ``share_of_ideal``, the tokens found over those that a cache without a limit finds, null if
        it finds none.

    Raises
    ------
    TraceError
        If the trace has neither column.
    ConfigError
        If a capacity or the block size is out of range, or the trace's blocks and these do not divide each
        other.

    Examples
    --------
    >>> trace = Trace.from_columns(
    ...     arrival=[0, 1, 2], prompt_tokens=[4, 4, 4], output_tokens=[1, 1, 1],
    ...     prefix=[[1, 2], [3, 4], [1, 5]], prefix_block_tokens=2,
    ... )
    >>> curve = hit_curve(trace, capacities=[4, 5])
    >>> curve["token_hit_rate"].to_list()  # 3, 4 and the answer's block are between
    [0.16666666666666666, 0.16666666666666666]
    """
    if "prefix" not in trace.frame.columns and "session" not in trace.frame.columns:
        raise TraceError(f"{trace.name}: what prompts share is said by prefix or session, and it has neither")
    size = block_tokens_of(trace, block_tokens)
    gib = None if model is None else block_gib(model, size, kv_dtype)
    depths, blocks, tokens, asked_blocks, asked_tokens, _ = _native.reuse(
        trace, size, full_blocks=full_blocks, answers=answers
    )
    points = _points(depths) if capacities is None else [_capacity(each) for each in capacities]
    at = np.array(points, dtype=np.uint64)
    within = np.searchsorted(depths, at, side="right")
    found_blocks, found_tokens = (np.concatenate([[0], np.cumsum(each)])[within] for each in (blocks, tokens))
    ideal = int(tokens.sum())
    return pl.DataFrame(
        {
            "capacity_blocks": at,
            "capacity_gib": pl.Series(
                [None if gib is None else point * gib for point in points], dtype=pl.Float64
            ),
            "token_hit_rate": found_tokens / max(asked_tokens, 1),
            "block_hit_rate": found_blocks / max(asked_blocks, 1),
            "share_of_ideal": found_tokens / ideal
            if ideal
            else pl.Series([None] * len(points), dtype=pl.Float64),
        },
        schema=SCHEMA,
    )


def block_tokens_of(trace: Trace, block_tokens: int | None) -> int:
    """Return the tokens in a block: those given, or the trace's."""
    if block_tokens is not None:
        _check.count("block_tokens", block_tokens, most=2**20)
        return block_tokens
    return trace.prefix_block_tokens or _ENGINE_BLOCK_TOKENS


def block_gib(model: str | Model, block_tokens: int, kv_dtype: str = "auto") -> float:
    """Return the GiB of a block's KV, over all GPUs.

    Examples
    --------
    >>> round(block_gib("llama-3.1-8b", 16) * 1024, 6)  # 16 tokens of 128 KiB
    2.0
    """
    shape = Model.load(model) if isinstance(model, str) else model
    pages = pages_of(shape, tensor_parallel=1, block_tokens=block_tokens, kv_dtype=kv_dtype)
    return pages.block_bytes / _GIB


def _capacity(blocks: int) -> int:
    _check.count("a capacity", blocks, most=_MOST_BLOCKS, why="the engine numbers blocks in 32 bits")
    return blocks


def _points(depths: np.ndarray) -> list[int]:
    """Return capacities up to the deepest: the powers of the square root of 2, rounded, and the deepest."""
    last = int(depths[-1]) if len(depths) else 1
    powers = {round(2 ** (power / 2)) for power in range(2 * last.bit_length())}
    return sorted({*(power for power in powers if power < last), last})
