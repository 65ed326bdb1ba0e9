"""Latent attention (MLA): measured as a whole block by some backends, kernel by kernel by others."""

from __future__ import annotations

import numpy as np
import polars as pl

from paceline.errors import ConfigError
from paceline.kernels.assembled.attention import Attention, prompt_grid
from paceline.kernels.assembled.rank import MS, Rank, pick_kernel
from paceline.kernels.curve import Curve
from paceline.kernels.grid import Grid
from paceline.kernels.operators import causal_points

__all__ = ["latent"]


def latent(rank: Rank) -> Attention:
    """Return latent attention: the block where it was measured as one, else kernel and multiplications.

    Blocks were measured with all projections in one type of weights, so others are put together.

    As a block, both tables hold the projections, so a step that prefills and decodes counts their weights
    twice. Kernel by kernel, prompts expand the compressed keys and values (``kv_b_proj``), and decodes absorb
    that into two batched multiplications (``mla_bmm_perf``).
    """
    alike = rank.model.projection_dtype == rank.model.output_projection_dtype
    if alike and rank.has("mla_context_module_perf") and rank.has("mla_generation_module_perf"):
        return _blocks(rank)
    return _kernels(rank)


def _blocks(rank: Rank) -> Attention:
    projections = rank.model.projection_dtype
    weights = "fp8_block" if projections == "fp8" else projections
    prompts, decodes = (_rows(rank, f"mla_{kind}_module_perf", weights) for kind in ("context", "generation"))
    return Attention(decode=_decode(decodes), prefill=prompt_grid(prompts), dense={}, whole=True)


def _kernels(rank: Rank) -> Attention:
    model, shape = rank.model, rank.model.latent
    assert shape is not None, "Invariant: only latent models come here"
    heads, hidden = model.heads // rank.ranks, model.hidden_size
    query = shape.query_rank or hidden
    of = model.projection_dtype
    compress = rank.multiplication(hidden, (shape.query_rank or 0) + shape.cached, of)
    expand = rank.multiplication(query, heads * shape.head_dim, of)
    values = rank.multiplication(shape.kv_rank, heads * (shape.nope_dim + shape.value_dim), of)
    absorb = _absorb(rank, heads)
    prompts, decodes = (_rows(rank, f"{kind}_mla_perf") for kind in ("context", "generation"))
    alone = prompts.filter((pl.col("batch_size") == 1) & (pl.col("step") == 0))
    whole = Curve.of((n, MS * ms) for n, ms in alone.select("isl", "latency").iter_rows())
    points = causal_points(whole, longest=whole.end)
    prefill = Grid.of([(n, past, 0, 0, s + values(n)) for n, past, _, _, s in points])
    kernel = _decode(decodes)
    added = np.array([absorb(n) for n in kernel.axes[2]]).reshape(1, 1, -1, 1)
    return Attention(
        decode=Grid(kernel.axes, kernel.seconds + added),
        prefill=prefill,
        dense={
            "qkv_proj": compress + expand,
            "rotary_emb": rank.traffic(2 * (heads + 1) * shape.rope_dim),
            "o_proj": rank.multiplication(heads * shape.value_dim, hidden, model.output_projection_dtype),
        },
    )


def _rows(rank: Rank, file: str, weights: str | None = None) -> pl.DataFrame:
    heads, cached = rank.model.heads // rank.ranks, rank.cached
    table = rank.table(file)
    if "kv_cache_dtype" in table.columns:
        table = table.filter(pl.col("kv_cache_dtype") == cached)
    rows = table.filter(pl.col("num_heads") == heads)
    if weights is not None:
        rows = rows.filter(pl.col("gemm_type") == weights)
    if rows.is_empty():
        columns = ("num_heads",) if weights is None else ("num_heads", "gemm_type")
        known = ", ".join(" ".join(map(str, row)) for row in sorted(set(table.select(columns).rows())))
        wanted = f"{heads} heads with {cached} keys" + (f" and {weights} projections" if weights else "")
        raise ConfigError(f"{file} of {rank.backend} on {rank.gpu} must have {wanted}, had {known}")
    return pick_kernel(rows)


def _decode(rows: pl.DataFrame) -> Grid:
    points = rows.select("batch_size", pl.col("isl") + pl.col("step"), "latency").iter_rows()
    return Grid.of([(0, 0, batch, context, MS * ms) for batch, context, ms in points])


def _absorb(rank: Rank, heads: int) -> Curve:
    """Return the two batched multiplications around a decode's kernel."""
    table = rank.table("mla_bmm_perf").filter(
        (pl.col("bmm_dtype") == rank.model.dtype) & (pl.col("num_heads") == heads)
    )
    total = None
    for name in ("mla_gen_pre", "mla_gen_post"):
        rows = pick_kernel(table.filter(pl.col("op_name") == name))
        if rows.is_empty():
            raise ConfigError(
                f"mla_bmm_perf of {rank.backend} on {rank.gpu} must have {name} of {heads} heads"
            )
        part = Curve.of((n, MS * ms) for n, ms in rows.select("num_tokens", "latency").iter_rows())
        total = part if total is None else total + part
    assert total is not None, "Invariant: both were added"
    return total
