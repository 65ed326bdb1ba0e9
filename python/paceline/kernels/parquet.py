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

import io
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from paceline._arguments import typed
from paceline._atomic import new_file
from paceline._parquet import check_foreign, parse
from paceline.errors import ConfigError
from paceline.kernels.curve import Curve
from paceline.kernels.grid import Grid, check_points
from paceline.kernels.profile import KernelProfile
from paceline.kernels.skew import Skew
from paceline.kernels.typed import Kind, hold_to
from paceline.limits import Limits
from paceline.trace.opening import content
from paceline.trace.seal import check_seal, sealed

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
_KINDS: dict[str, Kind] = {
    name: "text" if dtype == pl.String else "number" if dtype == pl.Float64 else "count"
    for name, dtype in SCHEMA.items()
    if name != "spread"
}


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
    buffer = io.BytesIO()
    pl.DataFrame(rows, schema=SCHEMA).write_parquet(buffer, compression="zstd")
    with new_file(Path(path)) as draft:
        draft.write_bytes(sealed(buffer.getvalue()))


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
    """Read a file that :func:`write_parquet` wrote, or one of the same form.

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
        If it is no readable Parquet file, a column is missing, or a value is not of its type; the message
        names the row.
    """
    path = Path(path)
    frame = _read(path)

    def of(kernel: str, *columns: str) -> list[tuple[Any, ...]]:
        rows = frame.filter(pl.col("kernel") == kernel).select("at", *columns)
        for column in columns:
            missing = rows.filter(pl.col(column).is_null())
            if missing.height:
                raise ConfigError(
                    f"{path}, row {missing['at'][0]} (counting from 0): {column} of {kernel} is missing"
                )
        return rows.drop("at").rows()

    facts = dict(of("fact", "layer", "text"))
    ranks = facts.pop("tensor_parallel", None)
    if ranks is not None and not re.fullmatch(r"[1-9][0-9]{0,8}", ranks):
        raise ConfigError(
            f"fact tensor_parallel of {path} must be a whole number above 0, was {ranks[:40]!r}"
        )
    experts: dict[int, list[tuple[Any, ...]]] = {}
    for count, *row in of("experts", "ranks", "activated", "tokens", "seconds"):
        experts.setdefault(count or 1, []).append(tuple(row))
    dealt = {count: _curves(rows) for count, rows in experts.items()}
    exchange = of("collective", "layer", "bytes", "seconds")
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


def _read(path: Path) -> pl.DataFrame:
    """Return the columns of the schema in their types, and the row numbers as ``at``."""
    limits = Limits.current()
    data = content(path, limits=limits, error=ConfigError)
    if not check_seal(data, str(path), error=ConfigError):
        check_foreign(data, str(path), error=ConfigError, limits=limits)
    frame = parse(data, str(path), error=ConfigError)
    missing = [column for column in SCHEMA if column not in frame.columns and column not in _LATER]
    if missing:
        raise ConfigError(f"{path} must have the columns {', '.join(SCHEMA)}, lacked {', '.join(missing)}")
    kinds = {name: kind for name, kind in _KINDS.items() if name in frame.columns}
    held = hold_to(frame, kinds, str(path), row="row (counting from 0)").with_row_index("at")
    # Files without a number of ranks are of one rank; null means none there, too.
    absent = [pl.lit(None, dtype=pl.Int64).alias(name) for name in ("ranks", "bytes") if name not in kinds]
    return held.with_columns(absent).with_columns(pl.col("ranks").fill_null(1))


def _curves(rows: list[tuple[Any, ...]]) -> dict[Any, Curve]:
    points: dict[Any, list[tuple[int, float]]] = {}
    for key, at, seconds in rows:
        points.setdefault(key, []).append((at, seconds))
    return {key: Curve.of(pairs) for key, pairs in points.items()}


def _skew(rows: list[tuple[Any, ...]]) -> Skew | None:
    if not rows:
        return None
    axes = [sorted({row[axis] for row in rows}) for axis in range(3)]
    check_points([len(axis) for axis in axes], "skew")
    places = [{at: index for index, at in enumerate(axis)} for axis in axes]
    alpha = np.zeros([len(axis) for axis in axes])
    for row in rows:
        alpha[tuple(place[at] for place, at in zip(places, row[:3], strict=True))] = row[3]
    return Skew(tuple(axes[0]), tuple(axes[1]), alpha)
