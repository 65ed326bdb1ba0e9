"""Attention of grouped queries, with or without a sliding window in some layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from paceline.errors import ConfigError
from paceline.kernels.assembled.rank import MS, Rank, pick_kernel
from paceline.kernels.curve import Curve
from paceline.kernels.grid import Grid
from paceline.kernels.operators import causal_points

__all__ = ["Attention", "grouped", "prompt_grid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """A layer's attention: its two tables, and the layers around it that are measured apart.

    Parameters
    ----------
    decode, prefill
        By step that only does one of them.
    dense
        Projections and positions; what the tables hold already is left out.
    whole
        Whether the tables hold the projections.
    """

    decode: Grid
    prefill: Grid
    dense: dict[str, Curve]
    whole: bool = False


def grouped(rank: Rank) -> Attention:
    """Return the attention of a model with grouped queries."""
    model = rank.model
    hidden, head = model.hidden_size, model.head_dim
    query, key = model.heads // rank.ranks * head, model.kv_heads_per_rank(rank.ranks) * head
    dense = {
        "qkv_proj": rank.multiplication(hidden, query + 2 * key, model.projection_dtype),
        "o_proj": rank.multiplication(query, hidden, model.output_projection_dtype),
        "rotary_emb": rank.traffic(2 * (query + key)),
    }
    if model.qk_norm:
        dense["qk_norm"] = rank.traffic(2 * query) + rank.traffic(2 * key)  # a kernel for each
    sliding = model.sliding_layers
    kinds: list[tuple[int, float]] = [(0, (model.layers - sliding) / model.layers)]
    if sliding and model.sliding_window is not None:
        kinds.append((model.sliding_window, sliding / model.layers))
    parts = [(_decode(rank, window), _prefill(rank, window), share) for window, share in kinds if share]
    return Attention(
        decode=_mean([(decode, share) for decode, _, share in parts]),
        prefill=_mean([(prefill, share) for _, prefill, share in parts]),
        dense=dense,
    )


def _decode(rank: Rank, window: int) -> Grid:
    """Return attention of decodes: requests by context, as measured."""

    def grid(rows: pl.DataFrame) -> Grid:
        points = rows.select("batch_size", pl.col("isl") + pl.col("step"), "latency").iter_rows()
        return Grid.of([(0, 0, batch, context, MS * ms) for batch, context, ms in points])

    return _by_heads(rank, "generation_attention_perf", window, grid)


def _prefill(rank: Rank, window: int) -> Grid:
    """Return attention of one prompt after a history, from those without."""
    return _by_heads(rank, "context_attention_perf", window, prompt_grid)


def prompt_grid(rows: pl.DataFrame) -> Grid:
    """Return prompts after a history, made of whole prompts that were measured alone."""
    alone = rows.filter((pl.col("batch_size") == 1) & (pl.col("step") == 0))
    whole: Callable[[float], float] = Curve.of(
        (tokens, MS * ms) for tokens, ms in alone.select("isl", "latency").iter_rows()
    )
    longest: int = alone["isl"].max()  # type: ignore[assignment]
    return Grid.of(causal_points(whole, longest=longest))


def _by_heads(rank: Rank, file: str, window: int, grid: Callable[[pl.DataFrame], Grid]) -> Grid:
    """Return a table for the rank's query heads, between measured numbers of them."""
    model = rank.model
    heads, shared = model.heads // rank.ranks, model.kv_heads_per_rank(rank.ranks)
    table = rank.table(file)
    if "window_size" not in table.columns:  # tables from before sliding windows were measured
        table = table.with_columns(window_size=0)
    rows = table.filter(
        (pl.col("num_key_value_heads") == shared)
        & (pl.col("head_dim") == model.head_dim)
        & (pl.col("window_size") == window)
        & (pl.col("kv_cache_dtype") == rank.cached)
        & (pl.col("attn_dtype") == model.dtype)
    )
    known = sorted(rows["num_heads"].unique().to_list())
    below = [n for n in known if n <= heads][-1:]
    above = [n for n in known if n >= heads][:1]
    if not below or not above:
        kind = f" and a window of {window}" if window else ""
        there = ", ".join(map(str, known)) or "none"
        raise ConfigError(
            f"{file} of {rank.backend} on {rank.gpu} must have {heads} heads over {shared} key and value "
            f"heads of {model.head_dim} in {rank.cached}{kind}, or fewer and more heads; it has {there} "
            "over as many"
        )
    if below != above:
        rank.facts["heads"] = f"{heads}, between {below[0]} and {above[0]} measured"
    share = 0.0 if below == above else (heads - below[0]) / (above[0] - below[0])
    parts = [
        (grid(pick_kernel(rows.filter(pl.col("num_heads") == n))), weight)
        for n, weight in ((below[0], 1 - share), (above[0], share))
        if weight
    ]
    return _mean(parts)


def _mean(parts: list[tuple[Grid, float]]) -> Grid:
    """Return the weighted sum of tables, on the points of all as far as the shortest goes."""
    if len(parts) == 1:
        return parts[0][0]
    axes = []
    for axis in range(4):
        ends = [grid.axes[axis][-1] for grid, _ in parts]
        points = sorted({point for grid, _ in parts for point in grid.axes[axis] if point <= min(ends)})
        axes.append(tuple(points))
    shape = [len(axis) for axis in axes]
    seconds = np.zeros(shape)
    for index in np.ndindex(*shape):
        place = [axes[i][at] for i, at in enumerate(index)]
        seconds[index] = sum(weight * grid(*place) for grid, weight in parts)
    return Grid((axes[0], axes[1], axes[2], axes[3]), seconds)
