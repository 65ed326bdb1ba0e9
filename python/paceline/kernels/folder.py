"""Profiles as LLMServingSim's profiler writes them: a folder of CSV files and ``meta.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from paceline.errors import ConfigError
from paceline.kernels.curve import Curve
from paceline.kernels.grid import Grid
from paceline.kernels.metadata import flatten
from paceline.kernels.profile import KernelProfile
from paceline.kernels.skew import Skew
from paceline.kernels.typed import Kind, read_csv, read_text, without_nulls

__all__ = ["read_folder"]

_ATTENTION: dict[str, Kind] = {
    "prefill_chunk": "count",
    "kv_prefill": "count",
    "n_decode": "count",
    "kv_decode": "count",
    "time_us": "number",
}
_SKEW: dict[str, Kind] = {
    "n": "count",
    "nb": "count",
    "skew": "number",
    "pc": "count",
    "t_mean_us": "number",
    "t_max_us": "number",
    "t_skew_us": "number",
}


def read_folder(folder: Path) -> KernelProfile:
    """Read ``dense.csv``, ``per_sequence.csv``, ``attention.csv`` and, where they are, the others.

    ``skew.csv`` is used unless ``meta.yaml`` says that the profile's correction is not enabled; the fit
    beside it, ``skew_fit.csv``, is not: see :class:`~paceline.kernels.skew.Skew`.

    That switch matters. Of LLMServingSim's two runs of Llama-3.1-8B, the RTX PRO 6000's profile enables the
    correction: without it the replay's mean E2E latency is 6% short. The RTX 4090's does not, and with the
    ``skew.csv`` that lies there nevertheless it would be 4% long.

    Parameters
    ----------
    folder
        With times in microseconds, per layer where the layer repeats, of one rank.

    Returns
    -------
    KernelProfile

    Raises
    ------
    ConfigError
        If a file or a column that is needed is missing.
    """
    attention = _attention(folder / "attention.csv")
    meta = folder / "meta.yaml"
    facts = flatten(read_text(meta), str(meta)) if meta.is_file() else {}
    experts = _experts(folder / "moe.csv")
    kinds = {
        "decode": [row for row in attention if row[0] == 0 and row[2] > 0],
        "prefill": [row for row in attention if row[0] > 0 and row[2] == 0],
        "mixed": [row for row in attention if row[0] > 0 and row[2] > 0],
    }
    grids = {
        kind: Grid.of([(pc, kp, n, kv, 1e-6 * us) for pc, kp, n, kv, us in rows])
        for kind, rows in kinds.items()
        if rows
    }
    return KernelProfile(
        name=f"{facts.get('model', folder.name)} on {facts.get('gpu', 'an unnamed GPU')}",
        source=str(folder),
        dense=_curves(folder / "dense.csv", "tokens"),
        per_sequence=_curves(folder / "per_sequence.csv", "sequences"),
        skew=_skew(folder / "skew.csv") if facts.get("skew_fit.enabled", "true") == "true" else None,
        experts=experts.pop(1, {}),
        dealt=experts,
        facts=facts,
        decode=grids.get("decode"),
        prefill=grids.get("prefill"),
        mixed=grids.get("mixed"),
    )


def _read(path: Path, columns: Mapping[str, Kind], *, nulls: bool = False) -> pl.DataFrame:
    """Return columns of a file; one of several kernels of attention, where a profile names them."""
    if not path.is_file():
        raise ConfigError(f"a kernel profile must have {path.name}, was not in {path.parent}")
    frame = read_csv(path, columns, optional={} if "layer" in columns else {"layer": "text"})
    if "layer" in frame.columns and "layer" not in columns:
        frame = frame.filter(pl.col("layer") == "attention").drop("layer")
    if nulls:
        return frame
    return without_nulls(frame, str(path))


def _curves(path: Path, axis: str) -> dict[str, Curve]:
    rows = _read(path, {"layer": "text", axis: "count", "time_us": "number"})
    points: dict[str, list[tuple[int, float]]] = {}
    for layer, at, us in rows.iter_rows():
        points.setdefault(layer, []).append((at, 1e-6 * us))
    return {layer: Curve.of(pairs) for layer, pairs in points.items()}


def _experts(path: Path) -> dict[int, dict[int, Curve]]:
    """Return experts by the ranks that they were dealt out to: 1 in files that do not say."""
    if not path.is_file():
        return {}
    rows = _read(path, {"tokens": "count", "activated_experts": "count", "time_us": "number"})
    ranks = _read(path, {"ep": "count"})["ep"].to_list() if _has(path, "ep") else rows.height * [1]
    points: dict[int, dict[int, list[tuple[int, float]]]] = {}
    for of, (tokens, activated, us) in zip(ranks, rows.iter_rows(), strict=True):
        points.setdefault(of, {}).setdefault(activated, []).append((tokens, 1e-6 * us))
    return {
        of: {activated: Curve.of(pairs) for activated, pairs in by_count.items()}
        for of, by_count in points.items()
    }


def _has(path: Path, column: str) -> bool:
    return path.is_file() and column in read_csv(path, {}, optional={column: "text"}).columns


def _attention(path: Path) -> list[tuple[Any, ...]]:
    """Return rows of attention, also of files that give a prompt's mean key length for its history.

    Those are ``history + chunk / 2``; and rows of several tokens a decode, for speculation, are left out.
    """
    if not _has(path, "prefill_key"):
        return _read(path, _ATTENTION).rows()
    columns: dict[str, Kind] = {
        "prefill_chunk": "count",
        "prefill_key": "number",
        "n_decode": "count",
        "kv_decode": "count",
        "time_us": "number",
        "decode_q_len": "count",
    }
    rows = _read(path, columns).filter(pl.col("decode_q_len") <= 1)
    return [(pc, max(round(key - pc / 2), 0), n, kv, us) for pc, key, n, kv, us, _ in rows.iter_rows()]


def _skew(path: Path) -> Skew | None:
    """Read batches with ``nb`` of ``n`` contexts ``skew`` times as long as the others."""
    if not path.is_file():
        return None
    rows = _read(path, _SKEW, nulls=True).drop_nulls().filter(pl.col("n") * pl.col("skew") > 0)
    if rows.is_empty():
        return None
    return Skew.of(
        (pc, n, (nb * skew + n - nb) / (n * skew), mean, most, batch)
        for n, nb, skew, pc, mean, most, batch in rows.iter_rows()
    )
