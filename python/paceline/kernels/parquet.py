"""Our own format of a kernel profile: one Parquet file of measured points.

A row is a point, with its time in the column ``seconds``. ``kernel`` says what it is of:

==================  ==========================================================  =========================
``kernel``          columns that place the point                                 what it is
==================  ==========================================================  =========================
``dense``           ``layer``, ``tokens``                                        a layer of the block
``per_sequence``    ``layer``, ``requests``                                      LM head or sampler
``attention``       ``tokens``, ``history``, ``requests``, ``context``           attention of a step
``experts``         ``tokens``, ``activated``, ``ranks``                         experts of a layer
``skew``            ``tokens``, ``requests``, ``ratio``                          alpha, in ``seconds``
``collective``      ``layer``, ``bytes``                                         an exchange between ranks
``fact``            ``layer``                                                    a fact, in ``text``
==================  ==========================================================  =========================

Steps that only prefill have 0 ``requests``, those that only decode 0 ``tokens``. ``ratio`` is the mean over
the longest context, in the middle of equal cells from 0 to 1. Experts with ``ranks`` above 1 are of one of so
many that experts are dealt out to. ``bytes`` are of the whole message, the parts of all ranks together.
``spread`` is how far repetitions of the point lay apart, as half the distance between their quartiles over
their median; nothing reads it but people. Older files lack the last three of these columns.
Facts of our own are ``name``, ``tensor_parallel`` and ``whole_attention``: see
:class:`~paceline.kernels.profile.KernelProfile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from paceline._arguments import typed
from paceline.errors import ConfigError
from paceline.kernels.curve import Curve
from paceline.kernels.grid import Grid
from paceline.kernels.profile import KernelProfile
from paceline.kernels.skew import Skew

__all__ = ["SCHEMA", "read_parquet", "write_parquet"]

#: Columns of the file.
SCHEMA = {
    "kernel": pl.String,
    "layer": pl.String,
    "tokens": pl.UInt32,
    "history": pl.UInt32,
    "requests": pl.UInt32,
    "context": pl.UInt32,
    "activated": pl.UInt32,
    "ranks": pl.UInt32,
    "ratio": pl.Float64,
    "bytes": pl.UInt64,
    "seconds": pl.Float64,
    "spread": pl.Float64,
    "text": pl.String,
}
_LATER = ("ranks", "bytes", "spread")


@typed()
def write_parquet(
    profile: KernelProfile,
    path: str | PathLike[str],
    *,
    spread: Mapping[tuple[Any, ...], float] | None = None,
) -> None:
    """Write a profile in our format.

    Parameters
    ----------
    profile
        What to write.
    path
        The file; one that is there is replaced.
    spread
        How far repetitions lay apart, by kernel, layer and place: ``("dense", "qkv_proj", 16)``,
        ``("per_sequence", "lm_head", 4)``, ``("experts", 8, 16)`` (activated, tokens) and
        ``("attention", tokens, history, requests, context)``.
    """
    rows: list[dict[str, Any]] = [{"kernel": "fact", "layer": "name", "text": profile.name}]
    own = {
        "tensor_parallel": profile.tensor_parallel,
        "whole_attention": "true" if profile.whole_attention else None,
    }
    rows += [
        {"kernel": "fact", "layer": key, "text": str(value)}
        for key, value in own.items()
        if value is not None
    ]
    rows += [{"kernel": "fact", "layer": key, "text": text} for key, text in profile.facts.items()]
    for kernel, axis, curves in (
        ("dense", "tokens", profile.dense),
        ("per_sequence", "requests", profile.per_sequence),
    ):
        for layer, curve in curves.items():
            points = zip(curve.at, curve.seconds, strict=True)
            rows += [{"kernel": kernel, "layer": layer, axis: at, "seconds": s} for at, s in points]
    for ranks, by_count in {1: profile.experts, **profile.dealt}.items():
        for activated, curve in by_count.items():
            place = {"kernel": "experts", "ranks": ranks, "activated": activated}
            points = zip(curve.at, curve.seconds, strict=True)
            rows += [{**place, "tokens": at, "seconds": s} for at, s in points]
    for grid in (profile.decode, profile.prefill, profile.mixed):
        names = ("tokens", "history", "requests", "context", "seconds")
        cells = [] if grid is None else grid.rows()
        rows += [{"kernel": "attention", **dict(zip(names, row, strict=True))} for row in cells]
    for name, curve in profile.collectives.items():
        points = zip(curve.at, curve.seconds, strict=True)
        rows += [{"kernel": "collective", "layer": name, "bytes": at, "seconds": s} for at, s in points]
    if profile.skew is not None:
        rows += _skew_rows(profile.skew)
    if spread:
        for row in rows:
            row["spread"] = spread.get(_place(row))
    pl.DataFrame(rows, schema=SCHEMA).write_parquet(Path(path), compression="zstd")


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the place of a row as the keys of a spread have it."""
    axes = {
        "dense": ("layer", "tokens"),
        "per_sequence": ("layer", "requests"),
        "experts": ("activated", "tokens"),
        "attention": ("tokens", "history", "requests", "context"),
    }
    return (row["kernel"], *(row.get(axis) for axis in axes.get(row["kernel"], ())))


def _skew_rows(skew: Skew) -> list[dict[str, Any]]:
    cells = skew.alpha.shape[2]
    return [
        {
            "kernel": "skew",
            "tokens": tokens,
            "requests": requests,
            "ratio": (cell + 0.5) / cells,
            "seconds": float(skew.alpha[i, j, cell]),
        }
        for i, tokens in enumerate(skew.tokens)
        for j, requests in enumerate(skew.requests)
        for cell in range(cells)
    ]


@typed()
def read_parquet(path: str | PathLike[str]) -> KernelProfile:
    """Read what :func:`write_parquet` wrote, or the like.

    Parameters
    ----------
    path
        A file of the columns in :data:`SCHEMA`.

    Returns
    -------
    KernelProfile

    Raises
    ------
    ConfigError
        If a column is missing.
    """
    path = Path(path)
    try:
        frame = pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"{path} must be a Parquet file: {error}") from error
    missing = [column for column in SCHEMA if column not in frame.columns and column not in _LATER]
    if missing:
        raise ConfigError(f"{path} must have the columns {', '.join(SCHEMA)}, lacked {', '.join(missing)}")

    def of(kernel: str, *columns: str) -> list[tuple[Any, ...]]:
        return frame.filter(pl.col("kernel") == kernel).select(columns).rows()

    facts = dict(of("fact", "layer", "text"))
    ranks = facts.pop("tensor_parallel", None)
    dealt: dict[int, dict[int, Curve]] = {}
    for (count,), part in frame.filter(pl.col("kernel") == "experts").group_by(
        "ranks" if "ranks" in frame.columns else pl.lit(1, dtype=pl.UInt32).alias("ranks"),
        maintain_order=True,
    ):
        dealt[int(count or 1)] = _curves(part.select("activated", "tokens", "seconds").rows())
    exchange = of("collective", "layer", "bytes", "seconds") if "bytes" in frame.columns else []
    attention = of("attention", "tokens", "history", "requests", "context", "seconds")
    kinds = {
        "decode": [row for row in attention if row[0] == 0],
        "prefill": [row for row in attention if row[0] > 0 and row[2] == 0],
        "mixed": [row for row in attention if row[0] > 0 and row[2] > 0],
    }
    grids = {kind: Grid.of(rows) for kind, rows in kinds.items() if rows}
    return KernelProfile(
        name=facts.pop("name", path.stem),
        source=str(path),
        dense=_curves(of("dense", "layer", "tokens", "seconds")),
        per_sequence=_curves(of("per_sequence", "layer", "requests", "seconds")),
        experts=dealt.pop(1, {}),
        dealt=dealt,
        collectives=_curves(exchange),
        whole_attention=facts.pop("whole_attention", "false") == "true",
        tensor_parallel=None if ranks is None else int(ranks),
        skew=_skew(of("skew", "tokens", "requests", "ratio", "seconds")),
        facts=facts,
        decode=grids.get("decode"),
        prefill=grids.get("prefill"),
        mixed=grids.get("mixed"),
    )


def _curves(rows: list[tuple[Any, ...]]) -> dict[Any, Curve]:
    points: dict[Any, list[tuple[int, float]]] = {}
    for key, at, seconds in rows:
        points.setdefault(key, []).append((at, seconds))
    return {key: Curve.of(pairs) for key, pairs in points.items()}


def _skew(rows: list[tuple[Any, ...]]) -> Skew | None:
    if not rows:
        return None
    axes = [sorted({row[axis] for row in rows}) for axis in range(3)]
    alpha = np.zeros([len(axis) for axis in axes])
    for row in rows:
        alpha[tuple(axis.index(at) for axis, at in zip(axes, row[:3], strict=True))] = row[3]
    return Skew(tuple(axes[0]), tuple(axes[1]), alpha)
