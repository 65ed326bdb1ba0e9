"""The dataset of a sweep: a folder with one Parquet file for each point.

A file appears whole or not at all, under the identity of its point. So a sweep that is killed loses no
finished point, and a later one knows which there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import polars as pl

from paceline._arguments import typed
from paceline._atomic import new_file, remove_leftovers
from paceline._fork import use
from paceline.errors import ResultError

__all__ = ["Dataset", "joined", "read_sweep"]

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
        If the folder cannot be created, or is a file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._points = folder / POINTS
        try:
            self._points.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultError(f"{folder}: must be a folder for a sweep: {error.strerror or error}") from error
        remove_leftovers(self._points)

    def finished(self, identity: str, *, with_result: bool) -> pl.DataFrame | None:
        """Return the row of a point that was finished before; None if it was not, or failed."""
        path = self._path(identity)
        if not path.exists() or (with_result and not self.result(identity).exists()):
            return None
        row = _read(path)
        return row if row["status"][0] == "done" else None

    def write(self, identity: str, row: pl.DataFrame) -> None:
        """Write the row of a point, whole or not at all."""
        try:
            with new_file(self._path(identity), tidy=False) as draft:
                # One row has nothing to compress.
                row.write_parquet(draft, compression="uncompressed", statistics=False)
        except OSError as error:
            raise ResultError(
                f"{self._path(identity)}: could not be written: {error.strerror or error}"
            ) from error
        except pl.exceptions.PolarsError as error:
            raise ResultError(f"{self._path(identity)}: could not be written: {error}") from error

    def result(self, identity: str) -> Path:
        """Return the folder of a point's whole result, where results are kept."""
        return self.folder / RESULTS / identity

    def _path(self, identity: str) -> Path:
        return self._points / f"{identity}.parquet"


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
        A row for each point, in the order of their identities; see `paceline.sweep`.

    Raises
    ------
    ResultError
        If the folder is no sweep's, or a file in it cannot be read.
    """
    use()
    files = sorted((Path(folder) / POINTS).glob("*.parquet"))
    if not files:
        raise ResultError(f"{folder}: must be the folder of a sweep, with {POINTS}/*.parquet in it, had none")
    return joined(_read(file) for file in files)


def joined(rows: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Put rows of points into one table; an axis that only some have is null in the others."""
    return pl.concat(list(rows), how="diagonal_relaxed")


def _read(path: Path) -> pl.DataFrame:
    try:
        row = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ResultError(
            f"{path}: not readable as Parquet: {error}; remove it to replay its point"
        ) from error
    if "status" not in row.columns or row.height != 1:
        raise ResultError(f"{path}: must hold the row of a point, did not; remove it to replay its point")
    return row
