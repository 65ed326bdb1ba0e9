"""A sweep on a Ray cluster.

Each trace is put into Ray's object store once, before its rate is set, and workers read it from there. A
worker replays a point and returns its row; the process that called `paceline.sweep` writes it. So the dataset
needs no file system that the nodes share, and each point is written once, whatever happens to the workers. A
task that is lost with its worker or node is started again by Ray on another; as a replay is deterministic,
its row is the same.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from paceline import _core
from paceline._atomic import new_directory
from paceline._cores import ENVIRONMENT
from paceline.errors import ClusterLostError, ConfigError
from paceline.sweeping.dataset import Dataset
from paceline.sweeping.evaluate import Finished, Row, evaluate, run_text
from paceline.sweeping.measure import failed_row
from paceline.sweeping.point import Point
from paceline.sweeping.rows import Rows
from paceline.trace import Trace

__all__ = ["on_ray"]

_RETRIES: Final = 10
"""How often a task is started again after its worker or node was lost; then the point fails."""

_AHEAD: Final = 4
"""Tasks submitted for each core of the cluster: enough that none waits, and few enough to hold."""

_POLL_S: Final = 0.2

_ANSWER_S: Final = 1.0
"""Seconds that the cluster's head has to answer."""

_LOST_S: Final = 20.0
"""Seconds without an answer after which the cluster counts as lost; Ray ends the process after 60."""

Files = dict[str, bytes]


def on_ray(
    points: Sequence[Point], rows: Rows, dataset: Dataset | None, *, results: bool, workers: int | None
) -> Generator[Finished | None, None, None]:
    """Yield the rows of points as they are finished; see `paceline.sweep`.

    Raises
    ------
    ConfigError
        If Ray is not installed, or `workers` is below 1.
    """
    if find_spec("ray") is None:
        raise ConfigError("executor 'ray' needs Ray, which is not installed: pip install 'paceline[ray]'")
    if workers is not None and workers < 1:
        raise ConfigError(f"workers must be 1 or more, was {workers}")
    return _run(points, rows, dataset, results=results, workers=workers)


def _run(
    points: Sequence[Point], rows: Rows, dataset: Dataset | None, *, results: bool, workers: int | None
) -> Generator[Finished | None, None, None]:
    ray: Any = import_module("ray")
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    head = _Head(ray.get_runtime_context().gcs_address, dataset)
    cores = _Cores(lambda: int(ray.cluster_resources().get("CPU", 1)))
    task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_replayed)
    stored: dict[str, Any] = {}
    running: dict[Any, tuple[int, str]] = {}
    coming = iter(enumerate(points))
    left = len(points)
    try:
        while left:
            if not head.answers():
                time.sleep(_POLL_S)
                yield None
                continue
            most = workers or _AHEAD * max(1, cores.latest())
            for place, point in itertools.islice(coming, max(0, most - len(running))):
                identity = point.identity(None)
                try:
                    base = rows.base(point)
                    identity = point.identity(base.sha256)
                    if dataset is None or not dataset.finished(identity, with_result=results):
                        if base.sha256 not in stored:
                            stored[base.sha256] = ray.put(base)
                        run = None
                        if dataset is not None and results:
                            run = run_text(point, dataset.result(identity))
                        trace = stored[base.sha256]
                        reference = task.remote(point, identity, trace, _core.VERSION, results, run)
                        running[reference] = (place, identity)
                        continue
                except Exception as error:  # recorded, so that the other points go on
                    finished = Finished(place, failed_row(point, identity, error))
                else:
                    finished = Finished(place, {"id": identity, "status": "done"}, kept=True)
                left -= 1
                rows.release(point)
                yield finished
            yield None
            if not running:
                continue
            ready, _ = ray.wait(list(running), timeout=_POLL_S)
            for reference in ready:
                place, identity = running.pop(reference)
                point = points[place]
                row, files = _answer(reference, point, identity)
                if dataset is not None and files:
                    _save(dataset.result(identity), files)
                left -= 1
                rows.release(point)
                yield Finished(place, row)
    finally:
        # Where the cluster is lost there is nothing to cancel, and Ray would wait for it.
        for reference in () if head.lost else running:
            ray.cancel(reference, force=True)


class _Cores:
    """The cores of a cluster, as it last said.

    A cluster that has just ended never says: the question blocks its thread until Ray ends the process. So a
    thread of its own asks.
    """

    def __init__(self, ask: Callable[[], int]) -> None:
        self._ask = ask
        self._said = ask()
        self._asking: threading.Thread | None = None

    def latest(self) -> int:
        """Return what the cluster last said, and ask it again unless a question is open."""
        if self._asking is None or not self._asking.is_alive():
            self._asking = threading.Thread(target=self._update, name="paceline-cores", daemon=True)
            self._asking.start()
        return self._said

    def _update(self) -> None:
        # The cluster may end while it is asked: `_Head` says so.
        with contextlib.suppress(Exception):
            self._said = self._ask()


class _Head:
    """The process that a Ray cluster cannot do without: where it ended, Ray ends ours a minute later."""

    def __init__(self, address: str, dataset: Dataset | None) -> None:
        host, _, port = address.rpartition(":")
        self._address = address
        self._place = (host.strip("[]"), int(port))
        self._folder = None if dataset is None else dataset.folder
        self._answered = time.monotonic()
        self.lost = False

    def answers(self) -> bool:
        """Return whether it answers; calls of Ray that ask it would block until it does.

        Raises
        ------
        ClusterLostError
            If it has not answered for `_LOST_S` seconds.
        """
        there, now = self._accepts(), time.monotonic()
        if there:
            self._answered = now
        self.lost = now - self._answered > _LOST_S
        if self.lost:
            raise ClusterLostError(
                f"the Ray cluster at {self._address} does not answer any more; {self._kept()}"
            )
        return there

    def _accepts(self) -> bool:
        try:
            socket.create_connection(self._place, timeout=_ANSWER_S).close()
        except OSError:
            return False
        return True

    def _kept(self) -> str:
        if self._folder is None:
            return "give out=FOLDER, and the same call continues a sweep"
        return f"finished points are in {self._folder}, and the same command continues there"


def _replayed(
    point: Point, identity: str, rows: Trace, version: str, results: bool, run: str | None
) -> tuple[Row, Files]:
    """Replay a point in a worker; return its row and the files of its result."""
    if version != _core.VERSION:
        raise ConfigError(f"workers must have Paceline {version} as the caller has, had {_core.VERSION}")
    # The cores of the machine are of other tasks, too.
    os.environ.setdefault(ENVIRONMENT, "1")
    trace = point.paced(rows)
    if not results:
        return evaluate(point, identity, trace), {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / identity
        row = evaluate(point, identity, trace, keep=(path, run))
        return row, {file.name: file.read_bytes() for file in path.iterdir()}


def _answer(reference: Any, point: Point, identity: str) -> tuple[Row, Files]:  # noqa: ANN401 - Ray's
    """Return what a task returned, or the row of a point that failed."""
    ray: Any = import_module("ray")
    try:
        answer: tuple[Row, Files] = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return failed_row(point, identity, error.cause or error), {}
    except ray.exceptions.RayError as error:  # its workers were lost too often
        return failed_row(point, identity, error), {}
    return answer


def _save(folder: Path, files: Files) -> None:
    """Write the files of a result, whole or not at all."""
    with new_directory(folder) as draft:
        for name, content in files.items():
            (draft / name).write_bytes(content)
