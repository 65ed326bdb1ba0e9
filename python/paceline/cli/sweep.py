"""`paceline sweep`: replay a grid of configurations from a TOML file."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from paceline.cli.options import OUTPUT, SEARCH, Flag

if TYPE_CHECKING:
    from paceline.sweeping import Sweep, SweepProgress

__all__ = ["sweep"]

_EVERY_S: Final = 10.0
"""How often a line says how far the sweep is where there is no terminal for a bar."""

_MOST_ROWS: Final = 1_000
"""Points of the table that is printed."""

_SHOWN: Final = {
    "ttft_p50": "TTFT p50 (s)",
    "ttft_p99": "TTFT p99 (s)",
    "tpot_p99": "TPOT p99 (s)",
    "attainment": "attainment",
    "requests_per_s": "requests/s",
}


def sweep(
    study: Path,
    /,
    *,
    out: Annotated[Path, Parameter(group=OUTPUT)],
    results: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    executor: Annotated[Literal["threads", "ray"], Parameter(group=SEARCH)] = "threads",
    workers: Annotated[int | None, Parameter(group=SEARCH)] = None,
    json: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    quiet: Annotated[Flag, Parameter(group=OUTPUT)] = False,
) -> int:
    """Replay a grid of configurations into one dataset, on all cores.

    Each point's row is a Parquet file of its own below OUT/points, written as the point ends. The same
    command continues a sweep that was stopped. If a point fails, its row has the error, the others go on,
    and the exit status is 1.

    Parameters
    ----------
    study
        The grid as a TOML file: the tables of a run, and [over] with the values of each axis.
    out
        Folder of the dataset, which `paceline.read_sweep` reads.
    results
        Save the whole result of each point also, below OUT/results.
    executor
        threads: the cores of this machine; ray: the Ray cluster that the environment names.
    workers
        Replays at a time; by default one on each core. The rows do not depend on it.
    json
        Print one JSON object instead of a table.
    quiet
        Print nothing to standard error but errors.
    """
    import paceline
    from paceline.cli.output import note, print_json
    from paceline.cli.progress import TaskBar

    grid = paceline.read_grid(study)
    begun = time.perf_counter()
    with TaskBar(quiet=quiet) as bar:
        lines = _Lines(quiet=quiet)

        def show(at: SweepProgress) -> None:
            bar.show(f"replaying {at.done} of {at.total} points", at.done, at.total)
            lines.show(at)

        found = paceline.sweep(
            grid, out=out, results=results, executor=executor, workers=workers, progress=show
        )
    took = time.perf_counter() - begun
    if json:
        print_json(
            {
                "paceline": paceline.__version__,
                "points": found.points,
                "kept": found.kept,
                "failed": found.failures,
                "rows": found.frame.rows(named=True),
            }
        )
    else:
        _print(found, list(grid.axes))
    if not quiet:
        replayed = found.points - found.kept
        note(f"replayed {replayed:,} of {found.points:,} points in {took:.2f} s, rows in {out}")
    return 1 if found.failures else 0


class _Lines:
    """Says now and then how far a sweep is, where standard error is no terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown = not quiet and not sys.stderr.isatty()
        self._at = time.monotonic()

    def show(self, at: SweepProgress) -> None:
        from paceline.cli.output import note

        now = time.monotonic()
        if self._shown and now - self._at >= _EVERY_S and at.done < at.total:
            self._at = now
            failed = f", {at.failed:,} failed" if at.failed else ""
            left = "" if at.left_s is None else f", about {at.left_s:,.0f} s left"
            note(f"{at.done:,} of {at.total:,} points{failed}{left}")


def _print(found: Sweep, axes: list[str]) -> None:
    from rich.text import Text

    from paceline.cli.output import console, table

    screen, frame = console(), found.frame
    rows = frame.head(_MOST_ROWS).rows(named=True)
    shown = {name: title for name, title in _SHOWN.items() if any(row[name] is not None for row in rows)}
    names = [*axes, *shown]
    cells = [(*(_cell(row[name]) for name in names), row["status"]) for row in rows]
    screen.print(table((*axes, *shown.values(), ""), cells, left=len(axes)))
    if frame.height > _MOST_ROWS:
        left = frame.height - _MOST_ROWS
        screen.print(Text(f"{left:,} further points are in the dataset: paceline.read_sweep, or --json"))
    errors = Counter(found.failed["error"].to_list())
    for error, number in errors.items():
        points = "1 point" if number == 1 else f"{number:,} points"
        screen.print(Text(f"{points} failed: {error}"))


def _cell(value: Any) -> str:  # noqa: ANN401 - a number or a name
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
