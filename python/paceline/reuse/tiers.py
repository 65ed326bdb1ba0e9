"""Hits of a prefix cache by tier: the GPU's memory, the host's, and a store below."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import polars as pl

from paceline._arguments import typed
from paceline.errors import ConfigError
from paceline.model import Model
from paceline.reuse.curve import SCHEMA, hit_curve
from paceline.trace.model import Trace

__all__ = ["tier_hits"]


@typed(ConfigError)
def tier_hits(
    trace: Trace,
    *,
    tiers: Sequence[int],
    block_tokens: int | None = None,
    model: str | Model | None = None,
    kv_dtype: str = "auto",
    full_blocks: bool = False,
    answers: bool = True,
) -> pl.DataFrame:
    """Return what each of several tiers finds that no tier above it has.

    Every block is written to all tiers, and a use counts as one in each of them, so that a tier of so many
    blocks keeps as many of the latest used, and all that the tiers above it keep: what a tier finds is the
    difference of :func:`hit_curve` at its capacity and at that above. It is exact for that rule and for
    requests one after another. Where a use of a block that the GPU has counts in no tier below, as in vLLM's
    OffloadingConnector, these evict in another order: :func:`replayed_hits` replays a policy with such tiers.

    Parameters
    ----------
    trace
        With ``prefix`` or ``session``.
    tiers
        Blocks of each tier, from the GPU down; each has more than the one above.
    block_tokens, model, kv_dtype, full_blocks, answers
        As of :func:`hit_curve`.

    Returns
    -------
    polars.DataFrame
        A row for each tier, from the GPU (``tier`` 1) down: ``capacity_blocks``, ``capacity_gib``,
        ``token_hit_rate``, ``block_hit_rate`` and ``share_of_ideal`` of what it finds and no tier above has.

    Raises
    ------
    TraceError, ConfigError
        As :func:`hit_curve`; if there is no tier, or one has not more than the one above.

    Examples
    --------
    >>> trace = Trace.from_columns(
    ...     arrival=[0, 1, 2], prompt_tokens=[4, 4, 4], output_tokens=[1, 1, 1],
    ...     prefix=[[1, 2], [3, 4], [1, 2]], prefix_block_tokens=2,
    ... )
    >>> found = tier_hits(trace, tiers=[3, 6])  # both blocks are the fifth and sixth to have been used last
    >>> found["token_hit_rate"].to_list() == [0.0, 4 / 12]
    True
    """
    if not tiers or any(above >= below for above, below in pairwise(tiers)):
        raise ConfigError(
            f"tiers must be blocks from the GPU down, each more than the one above, were {list(tiers)}"
        )
    curve = hit_curve(
        trace,
        capacities=tiers,
        block_tokens=block_tokens,
        model=model,
        kv_dtype=kv_dtype,
        full_blocks=full_blocks,
        answers=answers,
    )
    rates = ("token_hit_rate", "block_hit_rate", "share_of_ideal")
    alone = [pl.col(name) - pl.col(name).shift(1, fill_value=0.0) for name in rates]
    found = curve.with_columns(*alone, tier=pl.int_range(1, pl.len() + 1, dtype=pl.UInt64))
    return found.select("tier", *SCHEMA.names())
