"""The dataset of a sweep: a folder of Parquet files, each with the rows of points that ended together.

A file appears whole or not at all. So a sweep that is killed loses no row that was written, and a later one
knows which there are. The row of a point that failed stays in its file when a later sweep replays the point;
a point's row is then the one that is done.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Final

import polars as pl

from paceline import _check
from paceline._arguments import typed
from paceline._atomic import new_file, remove_leftovers
from paceline._fork import use
from paceline.errors import ResultError

__all__ = ["Dataset", "read_sweep"]

POINTS: Final = "points"
RESULTS: Final = "results"


class Dataset:
    """The files of a sweep.

    Parameters
    ----------
    folder
        Created if it does not exist.

    Raises
    ------
    ResultError
        If the folder cannot be created, is a file, or has a file that cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        _check.path(folder, ResultError)
        self.folder = folder
        self._points = folder / POINTS
        try:
            self._points.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultError(f"{folder}: must be a folder for a sweep: {error.strerror or error}") from error
        remove_leftovers(self._points)
        there = _rows(self._points)
        rows = [] if there is None else there.filter(status="done").to_dicts()
        self._done: dict[str, dict[str, Any]] = {row["id"]: row for row in rows}

    def finished(self, identity: str, *, with_result: bool) -> dict[str, Any] | None:
        """Return the row of a point that an earlier sweep finished; None if none did, or it failed."""
        if with_result and not self.result(identity).exists():
            return None
        return self._done.get(identity)

    def write(self, rows: pl.DataFrame) -> None:
        """Write the rows of points to a file of their own, whole or not at all."""
        points = "".join(rows.get_column("id").to_list())
        path = self._points / f"{hashlib.sha256(points.encode()).hexdigest()[:32]}.parquet"
        try:
            with new_file(path, tidy=False) as draft:
                # A few rows have little to compress.
                rows.write_parquet(draft, compression="uncompressed", statistics=False)
        except OSError as error:
            raise ResultError(f"{path}: could not be written: {error.strerror or error}") from error
        except pl.exceptions.PolarsError as error:
            raise ResultError(f"{path}: could not be written: {error}") from error

    def result(self, identity: str) -> Path:
        """Return the folder of a point's whole result, where results are kept."""
        return self.folder / RESULTS / identity


@typed(ResultError)
def read_sweep(folder: str | os.PathLike[str]) -> pl.DataFrame:
    """Read the points of a sweep that are there so far, of a running or killed one too.

    Parameters
    ----------
    folder
        The folder of the sweep.

    Returns
    -------
    polars.DataFrame
        A row for each point, in the order of their identities; see `paceline.sweep`. An axis that only some
        points have is null in the others.

    Raises
    ------
    ResultError
        If the folder is no sweep's, or a file in it cannot be read.
    """
    use()
    rows = _rows(Path(folder) / POINTS)
    if rows is None:
        raise ResultError(f"{folder}: must be the folder of a sweep, with {POINTS}/*.parquet in it, had none")
    return rows


def _rows(folder: Path) -> pl.DataFrame | None:
    """Return the row of each point, the one that is done before one that failed; None without files."""
    files = sorted(folder.glob("*.parquet"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    if not files:
        return None
    try:
        rows = pl.concat([_read(file) for file in files], how="diagonal_relaxed")
    except pl.exceptions.PolarsError as error:
        raise ResultError(
            f"{folder}: its files have columns of different types: {error}; remove those of another sweep"
        ) from error
    # Of two that failed the later one counts.
    order = pl.col("status") == "done"
    return rows.sort("id", order, maintain_order=True).unique("id", keep="last", maintain_order=True)


def _read(path: Path) -> pl.DataFrame:
    try:
        rows = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ResultError(
            f"{path}: not readable as Parquet: {error}; remove it to replay its points"
        ) from error
    if not {"id", "status"} <= set(rows.columns):
        raise ResultError(f"{path}: must hold rows of points, did not; remove it to replay its points")
    for name in ("id", "status"):
        if rows.schema[name] != pl.String():
            raise ResultError(
                f"{path}: {name} must be text, was {rows.schema[name]}; remove the file to replay its points"
            )
    return rows
