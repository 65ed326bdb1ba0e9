"""Which files of a folder hold measured points, and of which kind, by what they contain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from paceline.errors import ConfigError
from paceline.validation.points.point import Point, Refused
from paceline.validation.points.readers import (
    aiconfigurator,
    disaggregated,
    folders,
    inferencex,
    lmbench,
    mlenergy,
    open_loop,
    stages,
    sweeps,
)
from paceline.validation.points.readers.tables import Found, header, of_another

__all__ = ["Unread", "read_points"]


class _Kind(NamedTuple):
    """A kind of data: the columns by which its files are known, and what reads them."""

    columns: tuple[str, ...]
    read: Callable[[Path, str], Found]


_KINDS = (
    _Kind(aiconfigurator.COLUMNS, aiconfigurator.read),
    _Kind(inferencex.COLUMNS, inferencex.read),
    _Kind(mlenergy.COLUMNS, mlenergy.read),
    _Kind(open_loop.COLUMNS, open_loop.read),
    _Kind(stages.COLUMNS, stages.read),
    _Kind(stages.RUNS_COLUMNS, stages.read_runs),
    _Kind(stages.PEERS_COLUMNS, of_another),
    _Kind(lmbench.COLUMNS, lmbench.read),
    _Kind(lmbench.SUMMARY_COLUMNS, of_another),
    _Kind(sweeps.COLUMNS, sweeps.read),
    _Kind(sweeps.LENGTHS_COLUMNS, of_another),
    _Kind(disaggregated.COLUMNS, disaggregated.read),
    _Kind(disaggregated.TOTALS_COLUMNS, disaggregated.read_totals),
)


class Unread(NamedTuple):
    """A file that holds no points of a known kind.

    Attributes
    ----------
    file
        Its place below the folder.
    """

    file: str


def read_points(folder: Path) -> Iterator[Point | Refused | Unread]:
    """Yield all points of the CSV files in a folder and below, what is refused, and the files of no kind.

    Raises
    ------
    ConfigError
        If there is no such folder.
    """
    if not folder.is_dir():
        raise ConfigError(f"a suite must be a folder of measured data, was {folder}")
    runs = [file for file in folder.rglob(folders.FILES[1]) if (file.parent / folders.FILES[0]).is_file()]
    for file in sorted(runs):
        yield from folders.read(file, file.relative_to(folder).as_posix())
    for file in sorted((*folder.rglob("*.csv"), *folder.rglob("*.csv.gz"))):
        name = file.relative_to(folder).as_posix()
        if any(run.parent in file.parents for run in runs):
            continue  # the run's own kernels, and what its engine logged
        columns = set(header(file))
        kind = next((kind for kind in _KINDS if columns.issuperset(kind.columns)), None)
        if kind is None:
            yield Unread(name)
        else:
            yield from kind.read(file, name)
