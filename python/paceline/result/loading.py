"""Loading a saved result."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
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
from paceline.result.save import (
    REQUESTS,
    ROUTER_TIMELINE,
    SKETCH,
    STEPS,
    SUMMARY,
    TENANT_TIMELINE,
    TIMELINE,
    TRANSFERS,
)
from paceline.result.saved_columns import SavedColumns
from paceline.result.sketch import read_sketch
from paceline.result.stats import ReplayStats
from paceline.result.steps import STEPS_SCHEMA, TRANSFERS_SCHEMA, Recorded
from paceline.result.summary import SUMMARY_SCHEMA
from paceline.result.timeline import INSTANCE_SCHEMA, Timelines
from paceline.result.totals import Totals

__all__ = ["load_result"]


class _Entry(msgspec.Struct):
    bytes: int
    sha256: str


class _Body(msgspec.Struct):
    provenance: dict[str, Any]
    requests: int
    stats: dict[str, Any]
    files: dict[str, _Entry]
    totals: dict[str, Any] | None = None
    carried: list[str] = []
    parts: list[str] = []


@typed(ResultError)
def load_result(directory: str | os.PathLike[str], *, lazy: bool = False) -> Result:
    """Read a result that `Result.save` wrote; it is equal to the saved one.

    Parameters
    ----------
    directory
        The directory that was saved to.
    lazy
        Read large files when they are used. False: every file is read at once, and checked against the
        manifest first. True: only the summary, the totals and the counters are. A column of requests is then
        read when it is first used, and the file is checked against the manifest then; so are timelines. The
        directory must stay as it is for as long as the result is used.

    Raises
    ------
    ResultError
        If the directory is no saved result, is of another format version, or a file in it is missing or was
        changed; the message says which. For a file that is read later, when it is read.

    Examples
    --------
    >>> import paceline, tempfile
    >>> trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[100], output_tokens=[3])
    >>> cost = paceline.Affine(step_s=0.010, token_s=0.0, kv_token_s=0.0)
    >>> cluster = paceline.Cluster([paceline.Instance(cost=cost, num_blocks=101)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = paceline.replay(trace, cluster).save(f"{folder}/run")
    ...     result = paceline.load_result(saved, lazy=True)
    ...     result.totals().finished, result.column("ttft").to_list()
    (1, [0.01])
    """
    return _load(Path(directory), lazily=lazy)


def _load(source: Path, *, lazily: bool) -> Result:
    use()
    manifest = read_manifest(source)
    parts = manifest.get("parts") or [REQUESTS]
    later = (*parts, TIMELINE, ROUTER_TIMELINE, TENANT_TIMELINE, STEPS, TRANSFERS) if lazily else ()
    try:
        body = msgspec.convert(manifest, _Body)
        missing = [name for name in (*parts, SKETCH) if name not in body.files]
        if missing:
            raise ResultError(
                f"{source / MANIFEST}: files must name {', '.join(missing)}; save the result again"
            )
        for name in body.files:
            if Path(name).name != name:
                raise ResultError(f"{source / MANIFEST}: files must lie beside the manifest, was {name!r}")
            if name not in later:
                _check(source, name, body)
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
    columns: RequestColumns
    if lazily:
        columns = SavedColumns(
            [source / name for name in parts],
            body.requests,
            lambda: _check_all(source, parts, body),
            tuple(body.carried),
        )
    else:
        columns = RequestColumns.from_frame(_read_requests([source / name for name in parts], body.requests))
    return Result(
        columns=columns,
        stats=lambda: stats,
        itl=lambda: itl,
        provenance=lambda: provenance,
        timelines=_timelines(source, body),
        recorded=_recorded(source, body),
        summary=_read_frame(source / SUMMARY, SUMMARY_SCHEMA) if lazily and SUMMARY in body.files else None,
        totals=_totals(source, body) if lazily else None,
    )


def _check(source: Path, name: str, body: _Body) -> None:
    entry = body.files[name]
    check_file(source, name, {"bytes": entry.bytes, "sha256": entry.sha256})


def _check_all(source: Path, names: Sequence[str], body: _Body) -> None:
    for name in names:
        _check(source, name, body)


def _totals(source: Path, body: _Body) -> Totals | None:
    """Return the totals that were saved; None if this version has others."""
    names = {each.name for each in dataclasses.fields(Totals)}
    if body.totals is None or set(body.totals) != names:
        return None
    try:
        return msgspec.convert(body.totals, Totals)
    except msgspec.ValidationError as error:
        raise ResultError(f"{source / MANIFEST}: totals: {error}; save the result again") from error


def _timelines(source: Path, body: _Body) -> Timelines | None:
    """Return the timelines that were saved, each read when it is called for."""
    if TIMELINE not in body.files:
        return None
    tenants = TENANT_TIMELINE in body.files
    return Timelines(
        instances=_reader(source, TIMELINE, INSTANCE_SCHEMA, body),
        router=_reader(source, ROUTER_TIMELINE, ROUTER_SCHEMA, body),
        tenants=_reader(source, TENANT_TIMELINE, TENANT_SCHEMA, body) if tenants else None,
    )


def _recorded(source: Path, body: _Body) -> Recorded | None:
    """Return the recorded steps and transfers that were saved, likewise."""
    if STEPS not in body.files:
        return None
    return Recorded(
        steps=_reader(source, STEPS, STEPS_SCHEMA, body),
        transfers=_reader(source, TRANSFERS, TRANSFERS_SCHEMA, body),
    )


def _reader(
    source: Path, name: str, schema: dict[str, pl.DataType], body: _Body
) -> Callable[[], pl.DataFrame]:
    """Return a function that checks a file and reads it."""

    def read() -> pl.DataFrame:
        if name not in body.files:
            raise ResultError(f"{source / MANIFEST}: files must name {name}; save the result again")
        _check(source, name, body)
        return _read_frame(source / name, schema)

    return read


def _read_frame(path: Path, schema: dict[str, pl.DataType], *, more: bool = False) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ResultError(f"{path}: not readable as Parquet: {error}") from error
    others = [name for name in frame.columns if name not in schema]
    if any(frame.schema.get(name) != dtype for name, dtype in schema.items()) or (others and not more):
        raise ResultError(f"{path}: columns must be {', '.join(schema)}, were {', '.join(frame.columns)}")
    return frame.select(*schema, *others)


def _read_requests(paths: Sequence[Path], rows: int) -> pl.DataFrame:
    frame = pl.concat([_read_frame(path, SCHEMA, more=True) for path in paths], rechunk=True)
    if frame.height != rows:
        raise ResultError(f"{paths[0]}: must have {rows} rows, had {frame.height}")
    return frame
