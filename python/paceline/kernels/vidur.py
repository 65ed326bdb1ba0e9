"""Vidur's compute profiles: ``mlp.csv`` and ``attention.csv``, in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import polars as pl

from paceline.errors import ConfigError
from paceline.kernels.curve import Curve
from paceline.kernels.grid import Grid
from paceline.kernels.operators import mixed_grid
from paceline.kernels.profile import KernelProfile
from paceline.kernels.typed import Kind, read_csv

__all__ = ["read_vidur"]

# Our layers and the operators of Vidur that they are made of. It measured both norms of a block apart.
_DENSE = {
    "embedding": ("emb",),
    "layernorm": ("input_layernorm",),
    "qkv_proj": ("attn_pre_proj",),
    "rotary_emb": ("attn_rope",),
    "o_proj": ("attn_post_proj",),
    "gate_up_proj": ("mlp_up_proj",),
    "act_fn": ("mlp_act",),
    "down_proj": ("mlp_down_proj",),
}
_NORMS = ("input_layernorm", "post_attention_layernorm")
_STATISTIC = "time_stats.{}.median"
_RANKS = "num_tensor_parallel_workers"
_TIMES: dict[bool, str] = {True: _STATISTIC.format("attn_prefill"), False: _STATISTIC.format("attn_decode")}
_ATTENTION: dict[str, Kind] = {
    "batch_size": "count",
    "prefill_chunk_size": "count",
    "kv_cache_size": "count",
    "is_prefill": "flag",
    **dict.fromkeys(_TIMES.values(), "number"),
}


def read_vidur(
    mlp: str | PathLike[str], attention: str | PathLike[str] | None = None, *, tensor_parallel: int = 1
) -> KernelProfile:
    """Read a compute profile of one model on one GPU.

    Medians count. Residual additions are in ``add``, twice a block, and go to the norms. The LM head and the
    sampler are not in these profiles, and so not in what is read.

    Parameters
    ----------
    mlp
        ``mlp.csv``, plain or compressed: a row for each ``num_tokens`` and ``num_tensor_parallel_workers``.
    attention
        ``attention.csv`` likewise, by ``batch_size``, ``prefill_chunk_size``, ``kv_cache_size`` and
        ``is_prefill``; without it, the profile has dense layers only.
    tensor_parallel
        Ranks of which one was measured.

    Returns
    -------
    KernelProfile

    Raises
    ------
    ConfigError
        If a column is missing or holds something else, or that split was not measured.
    """
    operators = sorted({*_NORMS, "add", *(each for several in _DENSE.values() for each in several)})
    columns: dict[str, Kind] = {"num_tokens": "count"}
    columns |= {_STATISTIC.format(operator): "number" for operator in operators}
    frame = _rows(Path(mlp), columns, tensor_parallel)

    def curve(*operators: str) -> Curve:
        columns = [_STATISTIC.format(operator) for operator in operators]
        times = frame.select("num_tokens", pl.sum_horizontal(columns)).drop_nulls()
        return Curve.of((tokens, 1e-3 * ms) for tokens, ms in times.iter_rows())

    dense = {layer: curve(*operators) for layer, operators in _DENSE.items()}
    norms = [curve(norm) for norm in _NORMS]
    dense["layernorm"] = 0.5 * (norms[0] + norms[1]) + curve("add")
    grids: dict[str, Grid] = {}
    if attention is not None:
        grids = _attention(_rows(Path(attention), _ATTENTION, tensor_parallel))
    return KernelProfile(
        name=Path(mlp).name.removesuffix(".zst").removesuffix(".csv"),
        source=str(mlp),
        dense=dense,
        per_sequence={},
        tensor_parallel=tensor_parallel,
        facts={"format": "vidur"},
        decode=grids.get("decode"),
        prefill=grids.get("prefill"),
        mixed=grids.get("mixed"),
    )


def _rows(path: Path, columns: Mapping[str, Kind], ranks: int) -> pl.DataFrame:
    frame = read_csv(path, {**columns, _RANKS: "count"})
    rows = frame.filter(pl.col(_RANKS) == ranks)
    if rows.is_empty():
        known = sorted(frame[_RANKS].drop_nulls().unique().to_list())
        raise ConfigError(f"{path} must have measured tensor_parallel {ranks}, had {known}")
    return rows


def _attention(frame: pl.DataFrame) -> dict[str, Grid]:
    """Return the three tables: Vidur launches a kernel for prompts, one by one, and another for decodes."""
    points: dict[bool, list[tuple[int, int, int, int, float]]] = {True: [], False: []}
    for kind, column in _TIMES.items():
        rows = frame.filter(pl.col("is_prefill") == kind)
        where = rows.select("prefill_chunk_size", "kv_cache_size", "batch_size", column).drop_nulls()
        for chunk, context, batch, ms in where.iter_rows():
            place = (chunk, context, 0, 0) if kind else (0, 0, batch, context)
            points[kind].append((*place, 1e-3 * ms))
    prefill, decode = Grid.of(points[True]), Grid.of(points[False])
    return {"prefill": prefill, "decode": decode, "mixed": mixed_grid(prefill, decode)}
