"""`paceline synthesize`: make a trace from a preset and write it to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["synthesize"]


def synthesize(
    preset: str,
    /,
    *,
    requests: int,
    out: Path,
    rate: float | None = None,
    seed: int = 0,
    quiet: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Make a trace from published statistics and write it to a file.

    Parameters
    ----------
    preset
        The distributions of the requests, such as azure-conv.
    requests
        The number of requests.
    out
        File to write: .csv, .jsonl (both also with .gz or .zst) or .parquet.
    rate
        Mean requests per second; that of the statistics if not given.
    seed
        The same seed makes the same trace.
    quiet
        Print nothing to standard error but errors.
    """
    from paceline.cli.interrupt import interruptible
    from paceline.cli.output import note

    def make() -> str:
        from paceline.synthesis import synthesize as make_trace

        trace = make_trace(preset, requests=requests, rate=rate, seed=seed)
        trace.write(out)
        return f"wrote {len(trace):,} requests over {trace.span_s:,.1f} s to {out}"

    said = interruptible(make)
    if not quiet:
        note(said)
