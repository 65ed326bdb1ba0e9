"""One point of a sweep, replayed and reduced to its row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paceline.replaying import replay
from paceline.runs import Run
from paceline.sweeping.measure import measured_row
from paceline.sweeping.point import Point
from paceline.trace import Trace

if TYPE_CHECKING:
    from paceline._core import Progress

__all__ = ["Finished", "Row", "evaluate", "run_text"]

Row = dict[str, Any]
"""The columns of a point, by name."""


class Finished(NamedTuple):
    """A point that needs no replay any more.

    Attributes
    ----------
    place
        Its place in the grid.
    row
        Its row; of one that is kept, id and status.
    kept
        Whether the row is from an earlier sweep, in the dataset.
    """

    place: int
    row: Row
    kept: bool = False


def evaluate(
    point: Point,
    identity: str,
    trace: Trace,
    *,
    keep: tuple[Path, str | None] | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Row:
    """Replay a point and return its row.

    Parameters
    ----------
    point, identity
        The point.
    trace
        Its trace.
    keep
        The folder to save the whole result to, and the text of its ``run.toml``; None: it is not saved.
    progress
        As of `paceline.replay`; may raise to stop the replay.
    """
    cluster, policy, settings = point.parts()
    result = replay(trace, cluster, policy, progress=progress, **settings.arguments())
    row = measured_row(point, identity, trace, policy, result)
    if keep is not None:
        folder, run = keep
        result.save(folder, run=run)
    return row


def run_text(point: Point, folder: Path) -> str | None:
    """Return the ``run.toml`` of a point for a folder; None if the trace has no source that it could name."""
    recipe = point.recipe()
    if recipe is None:
        return None
    cluster, policy, settings = point.parts()
    return Run(trace=recipe, cluster=cluster, policy=policy, settings=settings).to_toml(folder)
