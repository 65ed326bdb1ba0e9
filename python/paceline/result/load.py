"""Reading a saved result back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl

from paceline import _core
from paceline._arguments import typed
from paceline._fork import use
from paceline.errors import ResultError
from paceline.result.columns import SCHEMA, RequestColumns
from paceline.result.manifest import MANIFEST, check_file, read_manifest
from paceline.result.outcome import Sketch
from paceline.result.provenance import Provenance
from paceline.result.result import Result
from paceline.result.save import REQUESTS, SKETCH
from paceline.result.stats import ReplayStats

__all__ = ["load_result"]


@typed(ResultError)
def load_result(directory: str | os.PathLike[str]) -> Result:
    """Read a result that `Result.save` wrote.

    Every file is checked against the manifest first. The result answers all
    that the saved one did, and is equal to it.

    Parameters
    ----------
    directory
        The directory that was saved to.

    Raises
    ------
    ResultError
        If the directory is no saved result, is of another format version, or a
        file in it is missing or was changed; the message says which.
    """
    use()
    source = Path(directory)
    manifest = read_manifest(source)
    try:
        for name, entry in manifest["files"].items():
            check_file(source, name, entry)
        sketch = (source / SKETCH).read_bytes()
        stats = _stats(manifest["stats"], source)
        provenance = Provenance(**manifest["provenance"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ResultError(f"{source / MANIFEST}: incomplete: {error}; save the result again") from error
    return Result(
        columns=RequestColumns.from_frame(_read_requests(source / REQUESTS, manifest["requests"])),
        stats=lambda: stats,
        itl=lambda: read_sketch(sketch),
        provenance=lambda: provenance,
    )


def read_sketch(text: bytes) -> Sketch:
    """Build the sketch that `Sketch.to_json` wrote."""
    return _core.Sketch.from_json(text)


def _read_requests(path: Path, rows: int) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ResultError(f"{path}: not readable as Parquet: {error}") from error
    if dict(frame.schema) != SCHEMA:
        raise ResultError(f"{path}: columns must be {', '.join(SCHEMA)}, were {', '.join(frame.columns)}")
    if frame.height != rows:
        raise ResultError(f"{path}: must have {rows} rows, had {frame.height}")
    return frame


def _stats(counters: dict[str, Any], source: Path) -> ReplayStats:
    try:
        return ReplayStats.from_dict(counters)
    except ResultError as error:
        raise ResultError(f"{source / MANIFEST}: incomplete: {error}; save the result again") from error
