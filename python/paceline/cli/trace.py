"""`paceline trace`: summarize a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from paceline.limits import Limits
    from paceline.trace import Trace

__all__ = ["trace"]

_TITLES = {
    "gap_s": "gap between arrivals (s)",
    "prompt_tokens": "prompt tokens",
    "output_tokens": "output tokens",
    "reasoning_tokens": "reasoning tokens",
}


def trace(
    file: Path,
    /,
    *,
    on_empty_output: Literal["drop", "error"] = "drop",
    limit: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Summarize a trace: its rate, gaps and lengths.

    Parameters
    ----------
    file
        File with the requests; its format is recognised, also with .gz or .zst.
    on_empty_output
        What to do with requests that have no output.
    limit
        A bound on reading the file as NAME=VALUE: file_bytes, values, columns, line_bytes; may be repeated.
    json
        Print one JSON object instead of a table.
    """
    from paceline.cli.interrupt import interruptible
    from paceline.cli.output import print_json
    from paceline.limits import Limits

    limits = Limits.current().changed(limit)
    document = interruptible(lambda: _read(file, on_empty_output, limits))
    if json:
        print_json(document)
    else:
        _print(document)


def _read(file: Path, on_empty_output: Literal["drop", "error"], limits: Limits) -> dict[str, Any]:
    from paceline.trace import read_trace

    return describe(read_trace(file, on_empty_output=on_empty_output, limits=limits))


def describe(trace: Trace) -> dict[str, Any]:
    """Return what the command prints, by name."""
    return {
        "name": trace.name,
        "sha256": trace.sha256,
        "requests": len(trace),
        "dropped_rows": dict(trace.dropped),
        "span_s": trace.span_s,
        "rate_per_s": trace.rate_per_s,
        "columns": trace.frame.columns,
        "prefix_block_tokens": trace.prefix_block_tokens,
        "summary": {row.pop("quantity"): row for row in trace.summary().rows(named=True)},
    }


def _print(document: dict[str, Any]) -> None:
    from rich.text import Text

    from paceline.cli.output import console, table

    screen = console()
    title = (
        f"{document['name']}: {document['requests']:,} requests over {document['span_s']:,.1f} s, "
        f"{document['rate_per_s']:,.3g} a second"
    )
    screen.print(Text(title, style="bold"))
    screen.print()
    rows = [
        (
            _TITLES[quantity],
            *(_figure(row[name]) for name in ("mean", "cv", "p50", "p90", "p99", "max", "sum")),
        )
        for quantity, row in document["summary"].items()
    ]
    screen.print(table(("", "mean", "CV", "p50", "p90", "p99", "max", "sum"), rows))
    screen.print()
    screen.print(Text(f"columns  {', '.join(document['columns'])}"))
    for reason, count in document["dropped_rows"].items():
        screen.print(Text(f"left out {count:,} rows: {reason}"))
    screen.print(Text(f"sha256   {document['sha256']}"))


def _figure(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:,.4g}"
