"""`paceline.sweep`: replays all points of a grid, on the cores of this machine or of a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

import polars as pl

from paceline._arguments import typed
from paceline._cores import threads
from paceline._fork import use
from paceline._jobs import Heed, Jobs
from paceline.errors import ConfigError
from paceline.limits import Limits
from paceline.sweeping.collected import Collected
from paceline.sweeping.dataset import Dataset
from paceline.sweeping.evaluate import Finished, evaluate, run_text
from paceline.sweeping.grid import Grid
from paceline.sweeping.measure import failed_row
from paceline.sweeping.point import Point
from paceline.sweeping.rows import Rows
from paceline.sweeping.watch import SweepProgress, Watch

__all__ = ["Sweep", "sweep"]

_SOON: Final = 100_000
"""Points of which the rows are read at the end of a sweep, and not when they are asked for."""

_GATHER_S: Final = 0.5
"""How long a row waits for others to be written with it: a file takes as long as some of the replays."""


class Sweep:
    """What a sweep found.

    Attributes
    ----------
    frame
        A row for each point, in the order of the grid. Its columns: ``id``, the point's identity; ``status``
        (``done`` or ``failed``) and ``error``; one for each axis; the trace's name and digest; ``warmup_s``
        and ``warmup_requests``, the requests that are not judged; for ``ttft``, ``tpot``, ``e2e``,
        ``max_itl`` (the longest gap between two tokens) and ``queueing`` the columns ``_mean``, ``_p50``,
        ``_p90``, ``_p99`` and ``_max`` in seconds; ``attainment`` and ``goodput`` if the grid has an SLO; the
        main fields of `Result.totals`; and as JSON ``totals`` with all of them, and ``config``, the whole
        configuration.
    points
        The number of points.
    kept
        Points that were finished before and not replayed again.
    """

    @typed()
    def __init__(self, collected: Collected, last: SweepProgress | None) -> None:
        self._collected = collected
        self.points = 0 if last is None else last.done
        self.kept = 0 if last is None else last.kept
        self._failures = 0 if last is None else last.failed
        if self.points <= _SOON:
            self.frame  # noqa: B018 - it is there also if the dataset is not any more

    @cached_property
    def frame(self) -> pl.DataFrame:
        """A row for each point; of more than 100,000 points with `out` it is read when first asked for."""
        return self._collected.frame()

    @property
    def failures(self) -> int:
        """The number of points that failed."""
        return self._failures

    @property
    def failed(self) -> pl.DataFrame:
        """The rows of the points that failed."""
        return self.frame.filter(pl.col("status") == "failed")

    def __repr__(self) -> str:
        """Show how many points there are, and how many failed."""
        return f"Sweep({self.points:,} points, {self.failures:,} failed, {self.kept:,} kept)"


@typed()
def sweep(
    grid: Grid,
    *,
    out: str | os.PathLike[str] | None = None,
    results: bool = False,
    executor: Literal["threads", "ray"] = "threads",
    workers: int | None = None,
    limits: Limits | None = None,
    progress: Callable[[SweepProgress], object] | None = None,
) -> Sweep:
    """Replay all points of a grid.

    With `out`, a row is on the disk within a second after its replay, in a file with the others of that
    time, which appears whole or not at all. A sweep that was stopped or killed is continued by the same call:
    points that are finished are not replayed again. A point is the same if its whole configuration, the
    digest of its trace and the version of Paceline are. A point that fails has its error in its row, does not
    stop the others, and is tried again by the next sweep.

    Parameters
    ----------
    grid
        What to replay.
    out
        Folder of the dataset, which `read_sweep` reads; None: the rows are only returned.
    results
        Save the whole result of each point to ``out/results/ID`` also, for `paceline.load_result`.
    executor
        ``"threads"``: the cores of this process, as the interpreter is released while the engine runs.
        ``"ray"``: a Ray cluster, that of ``ray.init`` or the one that the environment names; needs
        ``pip install 'paceline[ray]'`` on each node.
    workers
        Replays at a time; None: one on each core. The rows do not depend on it.
    limits
        As of `paceline.read_trace`.
    progress
        Called on the calling thread for each point, once its row is on the disk.

    Returns
    -------
    Sweep
        The rows.

    Raises
    ------
    ConfigError
        If an argument is out of range, or Ray is not installed.
    ResultError
        If `out` cannot be written.

    Examples
    --------
    >>> import paceline
    >>> grid = paceline.Grid(
    ...     trace=paceline.Trace.from_columns(arrival=[0, 1], prompt_tokens=[8, 8], output_tokens=[4, 4]),
    ...     cluster=paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=9)]),
    ...     over={"scale": [1.0, 2.0], "policy": ["vllm", "sarathi"]},
    ... )
    >>> paceline.sweep(grid).frame.select("scale", "policy", "e2e_p99").rows()
    [(1.0, 'vllm', 2.0), (1.0, 'sarathi', 2.0), (2.0, 'vllm', 2.0), (2.0, 'sarathi', 2.0)]
    """
    use()
    if results and out is None:
        raise ConfigError("results of sweep() are saved below out, so out must be given: out='folder'")
    dataset = None if out is None else Dataset(Path(out))
    points = grid.points()
    types = points[0].types
    collected = Collected(grid.axes, types, dataset)
    rows = Rows(grid.uses(), grid.traces, limits)
    if executor == "ray":
        from paceline.sweeping.on_ray import on_ray

        finished = on_ray(points, rows, dataset, results=results, workers=workers)
    else:
        finished = _on_threads(points, rows, dataset, results=results, workers=threads(workers))
    watch, at = Watch(len(points)), None
    with contextlib.closing(finished):
        for each in _written(finished, collected):
            at = watch.count(kept=each.kept, failed=each.row["status"] == "failed")
            if progress is not None:
                progress(at)
    return Sweep(collected, at)


def _written(finished: Iterable[Finished | None], collected: Collected) -> Iterator[Finished]:
    """Yield what is finished once its row is on the disk; None says that time passes."""
    waiting: list[Finished] = []
    since = 0.0
    for each in finished:
        if each is not None:
            if not waiting:
                since = time.monotonic()
            waiting.append(each)
        if waiting and time.monotonic() - since >= _GATHER_S:
            collected.add(waiting)
            yield from waiting
            waiting = []
    collected.add(waiting)
    yield from waiting


def _on_threads(
    points: Sequence[Point], rows: Rows, dataset: Dataset | None, *, results: bool, workers: int
) -> Generator[Finished | None, None, None]:
    def one(place: int, heed: Heed) -> Finished:
        """Replay a point, unless it was before."""
        point, identity = points[place], None
        try:
            identity = point.identity(rows.base(point).sha256)
            if dataset is not None and dataset.finished(identity, with_result=results):
                return Finished(place, {"id": identity, "status": "done"}, kept=True)
            keep = None
            if dataset is not None and results:
                folder = dataset.result(identity)
                keep = (folder, run_text(point, folder))
            row = evaluate(point, identity, rows.paced(point), keep=keep, progress=lambda _: heed(0.0))
        except Exception as error:  # recorded, so that the other points go on
            row = failed_row(point, identity or point.identity(None), error)
        finally:
            rows.release(point)
        return Finished(place, row)

    with contextlib.closing(Jobs(range(len(points)), one, workers=workers).ended()) as ended:
        for each in ended:
            yield None if each is None else each[1]
