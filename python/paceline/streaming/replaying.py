"""Replaying a trace that is read in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paceline import _native
from paceline._arguments import typed
from paceline._clock import moment
from paceline._serving import name_models, served
from paceline.deployment import Cluster
from paceline.errors import (
    ClockError,
    ConfigError,
    InternalError,
    NoProgressError,
    PolicyError,
    TraceError,
)
from paceline.policy import Pace, Policy
from paceline.policy.misuse import warn_of_misuse
from paceline.policy.python_routers import Watched, routers_of
from paceline.result import Provenance, Result, load_result
from paceline.result.output import Output
from paceline.result.parts import RequestParts
from paceline.result.result import stats_of
from paceline.result.save import Rest, check_target, saving
from paceline.result.totals import total_of
from paceline.simulation.columns import without_rows
from paceline.streaming.checkpoints import Checkpoints, build_sha256
from paceline.trace import Trace, TraceScan

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
    out: Output,
    settings: Mapping[str, Any],
    progress: Callable[[Progress], object] | None,
    run: str | None = None,
) -> Result:
    """Replay a trace chunk by chunk into a directory; see `paceline.replay`.

    ``settings`` are those that the provenance keeps, ``until`` and ``leap`` among them; ``run`` is the text
    of the directory's ``run.toml``.
    """
    refuse_columns(scan)
    if out.checkpoint is not None and policy.calls:
        raise ConfigError(
            "checkpoint must be left out where a rule is a Python function, whose state is not kept"
        )
    target = check_target(out.directory)
    provenance = Provenance.of(scan, cluster, policy, settings)
    try:
        with (
            Watched(policy.calls),
            saving(target, keeps=out.checkpoint is not None) as draft,
            RequestParts(draft, scan.columns) as parts,
        ):
            checkpoints = None
            if out.checkpoint is not None:
                inputs = provenance.to_dict() | {"run": run, "chunk": scan.chunk, "build": build_sha256()}
                checkpoints = Checkpoints(draft, inputs, out.checkpoint)
            running = _Run(scan, parts, checkpoints, progress)
            with _kept_on(checkpoints):
                outcome = running.replay(_Serving(cluster, policy, pace, settings))
            summary, tally = parts.finish(outcome.itl)
            stats = stats_of(outcome, policy)
            totals = total_of(tally, stats, provenance)
            rest = Rest(
                stats=stats, itl=outcome.itl, provenance=provenance, summary=summary, totals=totals, run=run
            )
            rest.write(draft, rows=parts.rows, carried=parts.carried, requests=parts.entries)
            if checkpoints is not None:
                checkpoints.clear()
    except InternalError as error:
        error.configuration.update(provenance.to_files())
        raise
    return load_result(Path(target), lazy=True)


@contextmanager
def _kept_on(checkpoints: Checkpoints | None) -> Iterator[None]:
    """Remove what is written if the replay ends before its first checkpoint, or cannot go on from one.

    It cannot if an input breaks a rule. What is of another replay is left alone.
    """
    try:
        yield
    except BaseException as error:
        ends = isinstance(error, TraceError | ConfigError | PolicyError | ClockError | NoProgressError)
        if checkpoints is not None and (ends or not checkpoints.exist()):
            checkpoints.clear(everything=True)
        raise


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


class _Serving(NamedTuple):
    """What serves the requests.

    Attributes
    ----------
    cluster, policy, pace, settings
        As of `replay_scan`.
    """

    cluster: Cluster
    policy: Policy
    pace: Pace | None
    settings: Mapping[str, Any]

    def named(self) -> set[str]:
        """Return the models that instances serve by name."""
        return {one.served_model_name for one in self.cluster.instances if one.served_model_name is not None}

    def columns(self, chunk: Trace, scan: TraceScan) -> dict[str, Any]:
        """Return the columns of a chunk as the engine takes them."""
        return _native.columns(chunk, self.policy, served=self.named(), scan=scan)

    def engine(self, columns: Mapping[str, Any], scan: TraceScan, state: bytes | None) -> Stream:
        """Open the engine for chunks with such columns, at the start or at a state."""
        policy, until, named = self.policy, self.settings["until"], self.named()
        names = policy.names(_native.tenants(scan) if "tenant" in columns else ())
        serving = served(self.cluster, policy, names, self.pace)
        warn_of_misuse(policy, names.tenants)
        if named:
            name_models(serving["instances"], self.cluster, _native.models(scan, named))
        return _native.streamed(
            columns={name: without_rows(values) for name, values in columns.items()},
            **serving,
            entrance=self.cluster.entrance_to_wire(),
            calls=routers_of(policy.calls),
            until_ticks=None if until is None else moment("until", until),
            leap=self.settings["leap"],
            state=state,
        )


class _Run:
    """The rows of a scan on their way through the engine to the files of the result."""

    def __init__(
        self,
        scan: TraceScan,
        parts: RequestParts,
        checkpoints: Checkpoints | None,
        progress: Callable[[Progress], object] | None,
    ) -> None:
        self._scan, self._parts, self._checkpoints = scan, parts, checkpoints
        self._progress = progress

    def replay(self, serving: _Serving) -> Any:  # noqa: ANN401 - the native module's
        """Replay the rows that are left, and return the outcome."""
        kept = None if self._checkpoints is None else self._checkpoints.resume(self._parts)
        read, engine = 0 if kept is None else kept.read, None
        for chunk in self._scan.chunks(read):
            columns = serving.columns(chunk, self._scan)
            if engine is None:
                engine = serving.engine(columns, self._scan, None if kept is None else kept.engine)
            engine.extend(columns)
            self._parts.hold(chunk.frame)
            self._advance(engine, self._scan.chunk)
            read += len(chunk)
            self._keep_if_due(read, engine)
        assert engine is not None, "Invariant: a trace has a request, and a checkpoint one after it"
        engine.extend(None)
        self._advance(engine, 1)
        return engine.outcome()

    def _advance(self, engine: Stream, least: int) -> None:
        """Replay as far as the rows allow, and write the requests that have ended, if they are so many."""
        engine.advance(self._progress, len(self._scan))
        self._parts.write(engine.take_ended(least))

    def _keep_if_due(self, read: int, engine: Stream) -> None:
        """Keep the state, unless no rows are left."""
        if self._checkpoints is not None and read < len(self._scan) and self._checkpoints.due(read):
            self._checkpoints.keep(read, engine.checkpoint(), self._parts)
