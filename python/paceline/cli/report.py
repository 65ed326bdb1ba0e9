"""`paceline report`: saved results as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from paceline.cli.objective import objectives_if
from paceline.cli.options import OBJECTIVES, OUTPUT, Flag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["report"]


def report(
    directories: Annotated[tuple[Path, ...], Parameter(negative=())],
    /,
    *,
    out: Annotated[Path, Parameter(group=OUTPUT)],
    names: Annotated[list[str] | None, Parameter(name="--name", negative=(), group=OUTPUT)] = None,
    title: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    capacity: Annotated[list[Path] | None, Parameter(negative=(), group=OUTPUT)] = None,
    comparison: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    slo: Annotated[str | None, Parameter(group=OBJECTIVES)] = None,
    quiet: Annotated[Flag, Parameter(group=OUTPUT)] = False,
) -> None:
    """Write a report of saved results to one HTML file: charts and tables, side by side if there are several.

    Needs the extra packages of pip install 'paceline[report]'.

    Parameters
    ----------
    directories
        Saved results, as `paceline replay --out` writes them. Others are compared with the first. Or the
        folder of one sweep, as `paceline sweep --out` writes it.
    out
        The HTML file. It opens in a browser, without a network.
    names
        What the report calls a result, once for each, in their order; if not given, the directories' names.
    title
        The title of the page.
    capacity
        The output of `paceline capacity --json` in a file, for its curve; may be repeated.
    comparison
        The output of `paceline compare --json` in a file, for its intervals.
    slo
        Bounds as NAME=TIME,…: ttft=500ms,tpot=0.04; in seconds without a unit (s, ms, us); also e2e, and itl
        for the longest gap.
    quiet
        Print nothing to standard error but errors.
    """
    import paceline
    from paceline.cli.output import note
    from paceline.report import write_report

    if len(directories) == 1 and (directories[0] / "points").is_dir():
        _of_sweep(directories[0], out, title, {"--name": names, "--capacity": capacity, "--slo": slo})
        if not quiet:
            note(f"wrote {out}, {out.stat().st_size / 1e6:,.1f} MB")
        return
    called = _called(directories, names)
    bounds = objectives_if(slo)
    searches = {path.stem: _document(path, "capacity") for path in capacity or ()}
    compared = None if comparison is None else _document(comparison, "compare")
    saved = zip(called, directories, strict=True)
    results = {name: paceline.load_result(path, lazy=True) for name, path in saved}
    write_report(results, out, slo=bounds, capacities=searches, comparison=compared, title=title)
    if not quiet:
        note(f"wrote {out}, {out.stat().st_size / 1e6:,.1f} MB")


def _of_sweep(folder: Path, out: Path, title: str | None, unused: Mapping[str, object]) -> None:
    """Write the report of a sweep, which has its names and its SLO from its grid."""
    from paceline.errors import ConfigError
    from paceline.report import write_sweep_report

    given = [name for name, value in unused.items() if value]
    if given:
        raise ConfigError(
            f"{', '.join(given)} must not be given with a sweep, which has its own names and SLO; "
            f"{folder} is the folder of one"
        )
    write_sweep_report(folder, out, title=title)


def _called(directories: Sequence[Path], names: Sequence[str] | None) -> list[str]:
    """Return the names of results: given ones, or the ends of their paths, as long as they need to differ."""
    from paceline.errors import ConfigError

    if names is not None:
        if len(names) != len(directories) or len(set(names)) < len(names):
            raise ConfigError(
                f"--name must be given once for each of {len(directories)} results, all different, "
                f"was {', '.join(names)}"
            )
        return list(names)
    paths = [path.resolve() for path in directories]
    if len(set(paths)) < len(paths):
        raise ConfigError(f"results must be different directories, were {', '.join(map(str, directories))}")
    for length in range(1, max((len(path.parts) for path in paths), default=1) + 1):
        ends = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(ends)) == len(ends):
            return ends
    return [str(path) for path in paths]


def _document(path: Path, command: str) -> Any:  # noqa: ANN401 - a JSON document
    import json

    from paceline._documents import read_document
    from paceline.errors import ConfigError

    text = read_document(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: not readable as JSON ({error}); it must be what `paceline {command} --json` prints"
        ) from error
