"""A progress bar for long replays, and one for many.

That of a replay appears on standard error half a second into a replay, if that is a terminal,
and is gone when the replay ends.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, TypeAlias

__all__ = ["PATIENCE_S", "Report", "Snapshot", "TaskBar", "progress_bar"]

PATIENCE_S: Final = 0.5
"""How long a replay runs without a bar."""


class Snapshot(Protocol):
    """The progress of a replay."""

    @property
    def finished(self) -> int:
        """Finished and rejected requests."""
        ...

    @property
    def total(self) -> int:
        """Requests in the trace."""
        ...

    @property
    def clock_s(self) -> float:
        """Simulated seconds."""
        ...


Report: TypeAlias = Callable[[Snapshot], None]


@contextlib.contextmanager
def progress_bar(*, quiet: bool, patience_s: float = PATIENCE_S) -> Iterator[Report | None]:
    """Yield a function to call with each snapshot; None if a bar would not be seen."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(patience_s)
    try:
        yield bar.show
    finally:
        bar.close()


class _Bar:
    def __init__(self, patience_s: float) -> None:
        self._start = time.perf_counter()
        self._patience_s = patience_s
        self._close: Callable[[], None] = lambda: None
        self._update: Report | None = None

    def show(self, snapshot: Snapshot) -> None:
        if self._update is None:
            if time.perf_counter() - self._start < self._patience_s:
                return
            self._update = self._open(snapshot.total)
        self._update(snapshot)

    def close(self) -> None:
        self._close()

    def _open(self, total: int) -> Report:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        progress = Progress(
            TextColumn("replaying"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[done]} requests, {task.fields[clock]} s simulated"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("left"),
            console=Console(stderr=True),
            transient=True,
            # The engine calls ten times a second; a thread of rich's own would need the interpreter too.
            auto_refresh=False,
        )
        task = progress.add_task("replaying", total=total, done="0", clock="0")
        # In this order: an interrupt during the start must still give the cursor back.
        self._close = progress.stop
        progress.start()

        def update(snapshot: Snapshot) -> None:
            done, clock = f"{snapshot.finished:,}", f"{snapshot.clock_s:,.0f}"
            progress.update(task, completed=snapshot.finished, done=done, clock=clock, refresh=True)

        return update


class TaskBar:
    """A bar over many replays, on standard error if that is a terminal.

    Parameters
    ----------
    quiet
        Never show it.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._shown = sys.stderr.isatty() and not quiet

    def __enter__(self) -> TaskBar:
        if self._shown:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                Progress,
                TaskProgressColumn,
                TextColumn,
                TimeRemainingColumn,
            )

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(elapsed_when_finished=True),
                TextColumn("left"),
                console=Console(stderr=True),
                transient=True,
                # As above: a thread of rich's own would need the interpreter too.
                auto_refresh=False,
                speed_estimate_period=600,
            )
            self._task = self._bar.add_task("starting", total=None)
            self._bar.start()
        return self

    def show(self, what: str, done: float, total: float) -> None:
        """Show how much is done of how much."""
        if self._bar is not None:
            self._bar.update(self._task, description=what, completed=done, total=total, refresh=True)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
