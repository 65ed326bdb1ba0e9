"""Replays of traces that are read in chunks, whose results are written as requests end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from paceline import _native
from paceline._arguments import typed
from paceline._clock import moment
from paceline._serving import name_models, served
from paceline.deployment import Cluster
from paceline.errors import ConfigError, InternalError
from paceline.policy import Pace, Policy
from paceline.policy.misuse import warn_of_misuse
from paceline.policy.python_routers import Watched, routers_of
from paceline.result import Provenance, Result, load_result
from paceline.result.parts import RequestParts
from paceline.result.result import stats_of
from paceline.result.save import Rest, check_target, saving
from paceline.result.totals import total_of
from paceline.simulation.columns import without_rows
from paceline.trace import TraceScan

if TYPE_CHECKING:
    from paceline._core import Progress, Stream

__all__ = ["replay_scan"]

_OTHERS: Final = {
    "session": "what the turns of a session share, and which of them are early, follows from all of them",
    "think_time": "a request that waits for an answer may be sent at any time after it",
    "parents": "a request that waits for answers may be sent at any time after them",
    "delay": "it is of requests that wait for answers",
    "not_before": "it is of requests that wait for answers",
}
"""Columns that say something about other rows."""


@typed()
def replay_scan(
    scan: TraceScan,
    cluster: Cluster,
    policy: Policy,
    *,
    pace: Pace | None,
    out: str | os.PathLike[str],
    settings: Mapping[str, Any],
    progress: Callable[[Progress], object] | None,
    run: str | None = None,
) -> Result:
    """Replay a trace chunk by chunk into a directory; see `paceline.replay`.

    ``settings`` are those that the provenance keeps, ``until`` and ``leap`` among them; ``run`` is the text
    of the directory's ``run.toml``.
    """
    refuse_columns(scan)
    target = check_target(out)
    named = {one.served_model_name for one in cluster.instances if one.served_model_name is not None}
    chunks = scan.chunks()
    first = next(chunks)
    columns = _native.columns(first, policy, served=named, scan=scan)
    names = policy.names(_native.tenants(scan) if "tenant" in columns else ())
    serving = served(cluster, policy, names, pace)
    warn_of_misuse(policy, names.tenants)
    if named:
        name_models(serving["instances"], cluster, _native.models(scan, named))
    until = settings["until"]
    try:
        with Watched(policy.calls), saving(target) as draft, RequestParts(draft, scan.columns) as parts:
            stream = _native.streamed(
                columns={name: without_rows(values) for name, values in columns.items()},
                **serving,
                entrance=cluster.entrance_to_wire(),
                calls=routers_of(policy.calls),
                until_ticks=None if until is None else moment("until", until),
                leap=settings["leap"],
            )
            running = _Run(stream, parts, scan, progress)
            running.give(first.frame, columns)
            for chunk in chunks:
                running.give(chunk.frame, _native.columns(chunk, policy, served=named, scan=scan))
            outcome = running.finish()
            summary, tally = parts.finish(outcome.itl)
            stats = stats_of(outcome, policy)
            provenance = Provenance.of(scan, cluster, policy, settings)
            totals = total_of(tally, stats, provenance)
            rest = Rest(
                stats=stats, itl=outcome.itl, provenance=provenance, summary=summary, totals=totals, run=run
            )
            rest.write(draft, rows=parts.rows, carried=parts.carried, requests=parts.entries)
    except InternalError as error:
        error.configuration.update(Provenance.of(scan, cluster, policy, settings).to_files())
        raise
    return load_result(Path(target), lazy=True)


def refuse_columns(scan: TraceScan) -> None:
    """Refuse columns that say something about other rows, which may be in no chunk with them.

    Raises
    ------
    ConfigError
        Names the column.
    """
    for name, why in _OTHERS.items():
        if name in scan.columns:
            raise ConfigError(
                f"{scan.name}: the column {name} must be left out where a trace is scanned: {why}; "
                f"pass drop=[{name!r}] to scan_trace, or read the trace with read_trace"
            )


class _Run:
    """The engine, the rows that it is given, and the requests that it returns."""

    def __init__(
        self,
        stream: Stream,
        parts: RequestParts,
        scan: TraceScan,
        progress: Callable[[Progress], object] | None,
    ) -> None:
        self._stream, self._parts, self._progress = stream, parts, progress
        self._rows, self._chunk = len(scan), scan.chunk

    def give(self, frame: Any, columns: Mapping[str, Any]) -> None:  # noqa: ANN401 - a polars frame
        """Replay as far as some more rows allow, and write the requests that have ended."""
        self._stream.extend(columns)
        self._parts.hold(frame)
        self._stream.advance(self._progress, self._rows)
        self._parts.write(self._stream.take_ended(self._chunk))

    def finish(self) -> Any:  # noqa: ANN401 - the native module's
        """Replay to the end, and return the outcome."""
        self._stream.extend(None)
        self._stream.advance(self._progress, self._rows)
        self._parts.write(self._stream.take_ended(1))
        return self._stream.outcome()
