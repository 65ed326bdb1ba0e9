"""Saving a result to a directory.

The directory holds `requests.parquet` (`Result.requests` as it is),
`instances.parquet` and `links.parquet` for readers of Parquet, `itl.json` (the
sketch), `summary.parquet` and `manifest.json` (everything else). A result that was sampled has its
timelines too: `timeline.parquet`, `router_timeline.parquet` and, by tenant,
`tenant_timeline.parquet`; one with a recorded window `steps.parquet` and
`transfers.parquet`.
`run.toml` repeats the replay, if the caller knows where the trace comes from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

import polars as pl

from paceline import _check
from paceline._atomic import new_directory
from paceline.errors import ResultError
from paceline.result.columns import SCHEMA
from paceline.result.manifest import MANIFEST, file_entry, read_manifest, write_manifest
from paceline.result.outcome import Sketch
from paceline.result.provenance import Provenance
from paceline.result.stats import ReplayStats
from paceline.result.totals import Totals

__all__ = [
    "INSTANCES",
    "LINKS",
    "REQUESTS",
    "ROUTER_TIMELINE",
    "RUN",
    "SKETCH",
    "STEPS",
    "SUMMARY",
    "TENANT_TIMELINE",
    "TIMELINE",
    "TRANSFERS",
    "check_target",
    "save_parts",
]

REQUESTS: Final = "requests.parquet"
INSTANCES: Final = "instances.parquet"
LINKS: Final = "links.parquet"
SKETCH: Final = "itl.json"
SUMMARY: Final = "summary.parquet"
TIMELINE: Final = "timeline.parquet"
ROUTER_TIMELINE: Final = "router_timeline.parquet"
TENANT_TIMELINE: Final = "tenant_timeline.parquet"
STEPS: Final = "steps.parquet"
TRANSFERS: Final = "transfers.parquet"
RUN: Final = "run.toml"


def save_parts(
    directory: str | os.PathLike[str],
    *,
    requests: pl.DataFrame,
    stats: ReplayStats,
    itl: Sketch,
    provenance: Provenance,
    summary: pl.DataFrame,
    totals: Totals,
    timelines: Mapping[str, pl.DataFrame] | None = None,
    overwrite: bool = False,
    run: str | None = None,
) -> Path:
    """Write the parts of a result to `directory`, whole or not at all: see `Result.save`."""
    target = check_target(directory, overwrite=overwrite)
    try:
        with new_directory(target) as draft:
            requests.write_parquet(draft / REQUESTS, compression="zstd", compression_level=1)
            stats.frame().write_parquet(draft / INSTANCES)
            stats.network.frame(stats.end_ticks).write_parquet(draft / LINKS)
            (draft / SKETCH).write_bytes(itl.to_json())
            sampled = timelines or {}
            for name, frame in sampled.items():
                frame.write_parquet(draft / name, compression="zstd", compression_level=1)
            summary.write_parquet(draft / SUMMARY)
            if run is not None:
                (draft / RUN).write_text(run, encoding="utf-8")
            names = (REQUESTS, INSTANCES, LINKS, SKETCH, SUMMARY, *sampled, *(() if run is None else (RUN,)))
            body = {
                "provenance": provenance.to_dict(),
                "requests": requests.height,
                "carried": [name for name in requests.columns if name not in SCHEMA],
                "stats": asdict(stats),
                "totals": totals.to_dict(),
                "files": {name: file_entry(draft / name) for name in names},
            }
            write_manifest(draft, body)
    except OSError as error:
        raise ResultError(f"{target}: could not be written: {error.strerror or error}") from error
    except pl.exceptions.PolarsError as error:
        # polars wraps the system's error in one of its own.
        raise ResultError(f"{target}: could not be written: {error}") from error
    return target


def check_target(directory: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Return the directory to save to; refuse one that holds something else.

    A directory is accepted if it does not exist, is empty or holds a saved result;
    with `overwrite`, any directory is.

    Raises
    ------
    ResultError
        If there is a file, or a directory with something else in it.
    """
    _check.path(directory, ResultError)
    target = Path(os.path.realpath(directory))
    if not target.exists():
        return target
    if not target.is_dir():
        raise ResultError(f"{target}: must be a directory, was a file; name another")
    if overwrite or not any(target.iterdir()) or _is_saved_result(target):
        return target
    raise ResultError(
        f"{target}: must be empty or hold a saved result, held other files; name another directory "
        "or pass overwrite=True"
    )


def _is_saved_result(target: Path) -> bool:
    """Whether `target` holds a result's files and nothing else."""
    try:
        names = {*read_manifest(target)["files"], MANIFEST}
    except (ResultError, KeyError, TypeError):
        return False
    return {path.name for path in target.iterdir()} <= names
