"""Loading a saved result."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from paceline._arguments import typed
from paceline._fork import use
from paceline.errors import ResultError
from paceline.result.columns import SCHEMA, RequestColumns
from paceline.result.manifest import MANIFEST, check_file, read_manifest
from paceline.result.provenance import Provenance
from paceline.result.result import Result
from paceline.result.router_timeline import ROUTER_SCHEMA, TENANT_SCHEMA
from paceline.result.save import REQUESTS, ROUTER_TIMELINE, SKETCH, TENANT_TIMELINE, TIMELINE
from paceline.result.sketch import read_sketch
from paceline.result.stats import ReplayStats
from paceline.result.timeline import INSTANCE_SCHEMA, Timelines

__all__ = ["load_result"]


class _Entry(msgspec.Struct):
    bytes: int
    sha256: str


class _Body(msgspec.Struct):
    provenance: dict[str, Any]
    requests: int
    stats: dict[str, Any]
    files: dict[str, _Entry]


@typed(ResultError)
def load_result(directory: str | os.PathLike[str]) -> Result:
    """Read a result that `Result.save` wrote.

    Every file is checked against the manifest first. The result is equal to the
    saved one.

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
        body = msgspec.convert(manifest, _Body)
        missing = [name for name in (REQUESTS, SKETCH) if name not in body.files]
        if missing:
            raise ResultError(
                f"{source / MANIFEST}: files must name {', '.join(missing)}; save the result again"
            )
        for name, entry in body.files.items():
            if Path(name).name != name:
                raise ResultError(f"{source / MANIFEST}: files must lie beside the manifest, was {name!r}")
            check_file(source, name, {"bytes": entry.bytes, "sha256": entry.sha256})
        sketch = (source / SKETCH).read_bytes()
        # The manifest may have more statistics than this version knows: see `from_dict`.
        msgspec.convert(body.stats, ReplayStats)
        stats = ReplayStats.from_dict(body.stats)
        provenance = msgspec.convert(body.provenance, Provenance)
    except OSError as error:
        raise ResultError(f"{source}: could not be read: {error.strerror or error}") from error
    except (msgspec.ValidationError, KeyError, TypeError) as error:
        raise ResultError(f"{source / MANIFEST}: incomplete: {error}; save the result again") from error
    itl = read_sketch(sketch, str(source / SKETCH))
    return Result(
        columns=RequestColumns.from_frame(_read_requests(source / REQUESTS, body.requests)),
        stats=lambda: stats,
        itl=lambda: itl,
        provenance=lambda: provenance,
        timelines=_timelines(source, body.files),
    )


def _timelines(source: Path, files: Mapping[str, _Entry]) -> Timelines | None:
    """Return the timelines that were saved, each read when it is called for."""
    if TIMELINE not in files:
        return None

    def reader(name: str, schema: dict[str, pl.DataType]) -> Callable[[], pl.DataFrame]:
        return lambda: _read_frame(source / name, schema)

    return Timelines(
        instances=reader(TIMELINE, INSTANCE_SCHEMA),
        router=reader(ROUTER_TIMELINE, ROUTER_SCHEMA),
        tenants=reader(TENANT_TIMELINE, TENANT_SCHEMA) if TENANT_TIMELINE in files else None,
    )


def _read_frame(path: Path, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ResultError(f"{path}: not readable as Parquet: {error}") from error
    if dict(frame.schema) != schema:
        raise ResultError(f"{path}: columns must be {', '.join(schema)}, were {', '.join(frame.columns)}")
    return frame


def _read_requests(path: Path, rows: int) -> pl.DataFrame:
    frame = _read_frame(path, SCHEMA)
    if frame.height != rows:
        raise ResultError(f"{path}: must have {rows} rows, had {frame.height}")
    return frame
