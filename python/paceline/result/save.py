"""Saving a result to a directory.

The directory holds `requests.parquet` (`Result.requests` as it is; of a streamed replay in parts,
`requests-00000.parquet` and those after it),
`instances.parquet` and `links.parquet` for readers of Parquet, `itl.json` (the
sketch), `summary.parquet` and `manifest.json` (everything else). A result that was sampled has its
timelines too: `timeline.parquet`, `router_timeline.parquet` and, by tenant,
`tenant_timeline.parquet`; one with a recorded window `steps.parquet` and
`transfers.parquet`.
`run.toml` repeats the replay, if the caller knows where the trace comes from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import polars as pl

from paceline import _check
from paceline._atomic import kept_directory, new_directory
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
    "Rest",
    "check_target",
    "save_parts",
    "saving",
    "write_requests",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What is saved of a result beside its requests; see `Result.save`."""

    stats: ReplayStats
    itl: Sketch
    provenance: Provenance
    summary: pl.DataFrame
    totals: Totals
    timelines: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    run: str | None = None

    def write(self, draft: Path, *, rows: int, carried: Sequence[str], requests: Mapping[str, Any]) -> None:
        """Write the files, and the manifest.

        Parameters
        ----------
        draft
            The directory, which has the files of requests.
        rows
            How many requests there are.
        carried
            Their columns of the trace.
        requests
            Their files by name, with the entry of each (`file_entry`): one, or parts in order.
        """
        self.stats.frame().write_parquet(draft / INSTANCES)
        self.stats.network.frame(self.stats.end_ticks).write_parquet(draft / LINKS)
        (draft / SKETCH).write_bytes(self.itl.to_json())
        for name, frame in self.timelines.items():
            frame.write_parquet(draft / name, compression="zstd", compression_level=1)
        self.summary.write_parquet(draft / SUMMARY)
        if self.run is not None:
            (draft / RUN).write_text(self.run, encoding="utf-8")
        run = () if self.run is None else (RUN,)
        names = (INSTANCES, LINKS, SKETCH, SUMMARY, *self.timelines, *run)
        body = {
            "provenance": self.provenance.to_dict(),
            "requests": rows,
            "carried": list(carried),
            "stats": asdict(self.stats),
            "totals": self.totals.to_dict(),
            "files": {**requests, **{name: file_entry(draft / name) for name in names}},
        }
        if list(requests) != [REQUESTS]:
            body["parts"] = list(requests)
        write_manifest(draft, body)


@contextmanager
def saving(target: Path, *, keeps: bool = False) -> Iterator[Path]:
    """Yield a directory that becomes `target` when the block ends well; raise the errors of writing.

    With `keeps` it is what an earlier call left of the same target, and is left to the next one if this one
    does not end well.
    """
    try:
        with kept_directory(target) if keeps else new_directory(target) as draft:
            yield draft
    except OSError as error:
        raise ResultError(f"{target}: could not be written: {error.strerror or error}") from error
    except pl.exceptions.PolarsError as error:
        # polars wraps the system's error in one of its own.
        raise ResultError(f"{target}: could not be written: {error}") from error


def save_parts(
    directory: str | os.PathLike[str], *, requests: pl.DataFrame, rest: Rest, overwrite: bool = False
) -> Path:
    """Write a result to `directory`, whole or not at all: see `Result.save`."""
    target = check_target(directory, overwrite=overwrite)
    with saving(target) as draft:
        write_requests(requests, draft / REQUESTS)
        carried = [name for name in requests.columns if name not in SCHEMA]
        entries = {REQUESTS: file_entry(draft / REQUESTS)}
        rest.write(draft, rows=requests.height, carried=carried, requests=entries)
    return target


def write_requests(requests: pl.DataFrame, path: Path) -> None:
    """Write rows of requests, as saved results have them."""
    requests.write_parquet(path, compression="zstd", compression_level=1)


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
        "or, in Python, pass overwrite=True"
    )


def _is_saved_result(target: Path) -> bool:
    """Whether `target` holds a result's files and nothing else."""
    try:
        names = {*read_manifest(target)["files"], MANIFEST}
    except (ResultError, KeyError, TypeError):
        return False
    return {path.name for path in target.iterdir()} <= names
