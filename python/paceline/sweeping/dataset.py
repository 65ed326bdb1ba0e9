"""The dataset of a sweep: a folder of Parquet files, each with the rows of points that ended together.

A file appears whole or not at all. So a sweep that is killed loses no row that was written, and a later one
knows which there are. The row of a point that failed stays in its file when a later sweep replays the point;
a point's row is then the one that is done.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from paceline import _check
from paceline._arguments import typed
from paceline._atomic import new_file, remove_leftovers
from paceline._fork import use
from paceline.errors import ResultError
from paceline.sweeping.measure import schema_of

__all__ = ["Dataset", "latest", "read_sweep"]

POINTS: Final = "points"
RESULTS: Final = "results"
_WORDS: Final = {pl.String: "text", pl.Int64: "whole numbers", pl.Float64: "numbers"}
_ID: Final = "^[0-9a-f]{32}$"
_AXES: Final = (pl.Int64, pl.Float64, pl.Boolean, pl.String, pl.Null)


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
        # The rows themselves stay on the disk: a sweep that resumes may have millions.
        self._done = {
            bytes.fromhex(identity)
            for file in _files(self._points)
            for identity in _read(file).filter(status="done").get_column("id")
        }

    def finished(self, identity: str, *, with_result: bool) -> bool:
        """Return whether an earlier sweep finished a point, with its whole result if that is asked for."""
        if with_result and not self.result(identity).exists():
            return False
        return bytes.fromhex(identity) in self._done

    def rows(self) -> pl.DataFrame:
        """Return the latest row of each point that is done, and of each that failed.

        Raises
        ------
        ResultError
            If a file cannot be read.
        """
        return latest(_joined(_files(self._points)))

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
    files = _files(folder)
    if not files:
        return None
    rows = _joined(files)
    # Of two that failed the later one counts.
    order = pl.col("status") == "done"
    return rows.sort("id", order, maintain_order=True).unique("id", keep="last", maintain_order=True)


def latest(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the last of the rows of each point that are done, and of those that failed."""
    return rows.unique(["id", "status"], keep="last", maintain_order=True)


def _files(folder: Path) -> list[Path]:
    """Return the files with rows, the oldest first."""
    return sorted(folder.glob("*.parquet"), key=lambda file: (file.stat().st_mtime_ns, file.name))


def _joined(files: Sequence[Path]) -> pl.DataFrame:
    """Return the rows of all files; a column that some files lack is null in their rows.

    An axis that is of numbers in one grid and of names in another is one of text.
    """
    if not files:
        return pl.DataFrame(schema=schema_of({}))
    return pl.concat([_read(file) for file in files], how="diagonal_relaxed")


def _read(path: Path) -> pl.DataFrame:
    """Return the rows of a file.

    Raises
    ------
    ResultError
        If it cannot be read, or is of other columns than `schema_of`.
    """
    try:
        rows = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ResultError(
            f"{path}: not readable as Parquet: {error}; remove it to replay its points"
        ) from error
    if not {"id", "status"} <= set(rows.columns):
        raise ResultError(f"{path}: must hold rows of points, did not; remove it to replay its points")
    known = schema_of({})
    for name, found in rows.schema.items():
        right = known.get(name)
        if right is None and not isinstance(found, _AXES):
            raise ResultError(
                f"{path}: {name} must be numbers, truth values or text, was {found}; remove the file "
                "to replay its points"
            )
        if right is not None and found != right and found != pl.Null:
            raise ResultError(
                f"{path}: {name} must be {_WORDS[type(right)]}, was {found}; remove the file to replay its "
                "points"
            )
    strange = rows.filter(~pl.col("id").str.contains(_ID) | pl.col("id").is_null())
    if strange.height:
        raise ResultError(
            f"{path}: id must have 32 hexadecimal digits, had {strange.get_column('id')[0]!r}; remove "
            "the file to replay its points"
        )
    return rows
