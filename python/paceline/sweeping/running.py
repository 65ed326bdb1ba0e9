"""`paceline.sweep`: replays all points of a grid, on the cores of this machine or of a Ray cluster."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl

from paceline._arguments import typed
from paceline._cores import threads
from paceline._fork import use
from paceline.errors import ConfigError
from paceline.limits import Limits
from paceline.sweeping.dataset import Dataset, joined
from paceline.sweeping.evaluate import evaluate, run_text
from paceline.sweeping.grid import Grid
from paceline.sweeping.measure import failed_row, frame_of
from paceline.sweeping.point import Point
from paceline.sweeping.rows import Rows
from paceline.sweeping.watch import SweepProgress, Watch

__all__ = ["Sweep", "sweep"]

_POLL_S: Final = 0.1

_WRITERS: Final = 4
"""Threads that write rows; they wait for the disk most of the time."""

Finished = tuple[int, pl.DataFrame, bool]
"""A point's place in the grid, its row, and whether the row is from an earlier sweep."""


@dataclass(frozen=True, slots=True, eq=False)
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
    kept
        Points that were finished before and not replayed again.
    """

    frame: pl.DataFrame
    kept: int

    @property
    def failed(self) -> pl.DataFrame:
        """The rows of the points that failed."""
        return self.frame.filter(pl.col("status") == "failed")

    def __repr__(self) -> str:
        """Show how many points there are, and how many failed."""
        return f"Sweep({self.frame.height:,} points, {self.failed.height:,} failed, {self.kept:,} kept)"


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

    With `out`, each row is written as its replay ends, to a file of its own that appears whole or not at
    all. A sweep that was stopped or killed is continued by the same call: points that are finished are not
    replayed again. A point is the same if its whole configuration, the digest of its trace and the version
    of Paceline are. A point that fails has its error in its row, does not stop the others, and is tried
    again by the next sweep.

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
        Called on the calling thread after each point.

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
    rows = Rows(points, grid.traces, limits)
    if executor == "ray":
        from paceline.sweeping.on_ray import on_ray

        finished = on_ray(points, rows, dataset, results=results, workers=workers)
    else:
        finished = _on_threads(points, rows, dataset, results=results, workers=threads(workers))
    found: dict[int, pl.DataFrame] = {}
    watch, kept_in_all = Watch(len(points)), 0
    with contextlib.closing(finished):
        for place, row, kept in finished:
            found[place] = row
            kept_in_all += kept
            at = watch.count(kept=kept, failed=row["status"][0] == "failed")
            if progress is not None:
                progress(at)
    return Sweep(joined(found[place] for place in range(len(points))), kept_in_all)


class _Stopped(Exception):
    """Ends a replay whose row is not wanted any more."""


def _on_threads(
    points: list[Point], rows: Rows, dataset: Dataset | None, *, results: bool, workers: int
) -> Generator[Finished, None, None]:
    stop = threading.Event()

    def heed(_: object) -> None:
        if stop.is_set():
            raise _Stopped

    def one(point: Point) -> Future[tuple[pl.DataFrame, bool]]:
        """Replay a point, and return its row, which is written meanwhile."""
        identity = point.identity(None)
        try:
            heed(None)
            identity = point.identity(rows.base(point).sha256)
            before = None if dataset is None else dataset.finished(identity, with_result=results)
            if before is not None:
                return writers.submit(lambda: (before, True))
            keep = None
            if dataset is not None and results:
                folder = dataset.result(identity)
                keep = (folder, run_text(point, folder))
            row = evaluate(point, identity, rows.paced(point), keep=keep, progress=heed)
        except _Stopped:
            raise
        except Exception as error:  # recorded, so that the other points go on
            row = failed_row(point, identity, error)
        finally:
            rows.release(point)
        return writers.submit(write, identity, frame_of(point, row))

    def write(identity: str, frame: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
        if dataset is not None:
            dataset.write(identity, frame)
        return frame, False

    pool = ThreadPoolExecutor(max(1, min(workers, len(points))))
    # A row is on the disk after some milliseconds, in which the next point is replayed.
    writers = ThreadPoolExecutor(_WRITERS)
    try:
        replaying: dict[Future[Any], int] = {
            pool.submit(one, point): place for place, point in enumerate(points)
        }
        writing: dict[Future[Any], int] = {}
        while replaying or writing:
            # A wait without a timeout cannot be interrupted on every platform.
            done, _ = wait(
                [*writing, *_first(replaying, workers)], timeout=_POLL_S, return_when=FIRST_COMPLETED
            )
            for future in [each for each in done if each in replaying]:
                writing[future.result()] = replaying.pop(future)
            for future in [each for each in writing if each.done()]:
                yield writing.pop(future), *future.result()
    finally:
        # An interrupt, or a row that cannot be written: the replays under way end at their next report.
        stop.set()
        pool.shutdown(cancel_futures=True)
        writers.shutdown(cancel_futures=True)


def _first(replaying: Iterable[Future[Any]], workers: int) -> list[Future[Any]]:
    """Return the futures that can be done: threads take them in order."""
    return list(itertools.islice(replaying, 2 * workers))
