"""`paceline synthesize`: make a trace from a preset and write it to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from paceline.cli.load_shapes import NO_SHAPE, ShapeOptions

if TYPE_CHECKING:
    from paceline.synthesis import Sessions

__all__ = ["synthesize"]


def synthesize(
    preset: str,
    /,
    *,
    out: Path,
    requests: int | None = None,
    sessions: int | None = None,
    rate: float | None = None,
    shape: ShapeOptions = NO_SHAPE,
    idle_cap: str | None = None,
    seed: int = 0,
    rows: int | None = None,
    quiet: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Make a trace from published statistics and write it to a file.

    Parameters
    ----------
    preset
        The distributions of the requests, such as azure-conv, or of sessions, such as tracelab-codex;
        paceline presets lists them.
    out
        File to write: .csv, .jsonl (both also with .gz or .zst) or .parquet.
    requests
        The number of requests.
    sessions
        Of sessions: how many, each to its end.
    rate
        Mean requests, or sessions that start, per second; that of the statistics if not given. inf lets all
        start at once, for clients with a limit.
    idle_cap
        Of sessions: the longest time from an answer to the next request (10s, 500ms).
    seed
        The same seed makes the same trace.
    rows
        Write --out as a folder of Parquet files with so many requests each, drawn one after the other, so
        that memory does not grow with their number: for paceline replay --stream.
    quiet
        Print nothing to standard error but errors.
    """
    from paceline.cli.interrupt import interruptible
    from paceline.cli.options import seconds_of
    from paceline.cli.output import note

    arrivals = shape.arrivals()
    cap = None if idle_cap is None else seconds_of(idle_cap, "--idle-cap")

    def make() -> str:
        from paceline.synthesis import synthesize as make_trace

        if rows is not None:
            given = {"rate": rate, "seed": seed, "arrivals": arrivals, "rows": rows}
            return _in_parts(preset, out, requests, sessions, **given)
        drawn = preset if cap is None else _capped(preset, cap)
        trace = make_trace(
            drawn, requests=requests, sessions=sessions, rate=rate, seed=seed, arrivals=arrivals
        )
        trace.write(out)
        held = ""
        if "session" in trace.frame.columns:
            held = f" of {trace.frame.get_column('session').n_unique():,} sessions"
        left = "".join(f"; {count:,} left out: {reason}" for reason, count in trace.dropped.items())
        return f"wrote {len(trace):,} requests{held} over {trace.span_s:,.1f} s to {out}{left}"

    said = interruptible(make)
    if not quiet:
        note(said)


def _in_parts(
    preset: str,
    out: Path,
    requests: int | None,
    sessions: int | None,
    **given: Any,  # noqa: ANN401
) -> str:
    """Draw a trace into a folder, and say so."""
    from paceline.errors import ConfigError
    from paceline.synthesis import synthesize_parts

    if requests is None or sessions is not None:
        raise ConfigError("--rows needs --requests, how many are drawn in all; sessions are drawn at once")
    scan = synthesize_parts(preset, out, requests=requests, **given)
    return f"wrote {len(scan):,} requests to {out} in {-(-requests // given['rows'])} files"


def _capped(name: str, cap: float) -> Sessions:
    from dataclasses import replace

    from paceline.errors import ConfigError
    from paceline.synthesis import Sessions, preset

    recipe = preset(name)
    if not isinstance(recipe, Sessions):
        raise ConfigError(f"--idle-cap is for sessions, and preset {name!r} has none")
    return replace(recipe, idle_cap_s=cap)
