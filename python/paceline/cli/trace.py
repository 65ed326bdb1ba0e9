"""`paceline trace`: summarize a trace, or write another made from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from paceline.cli.examples import epilogue
from paceline.cli.options import DEFAULT_READING, Flag, ReadingOptions

if TYPE_CHECKING:
    from paceline.trace import Trace

__all__ = ["app"]

app = App(
    name="trace",
    help="Summarize a trace (paceline trace FILE), or write another made from it.",
    help_format="plaintext",
    help_epilogue=epilogue("trace"),
)
Reading = Annotated[ReadingOptions, Parameter(name="*")]

_TITLES = {
    "gap_s": "gap between arrivals (s)",
    "prompt_tokens": "prompt tokens",
    "output_tokens": "output tokens",
    "reasoning_tokens": "reasoning tokens",
}


@app.default
@app.command
def info(file: Path, /, *, reading: Reading = DEFAULT_READING, json: Flag = False) -> None:
    """Summarize a trace: its rate, gaps and lengths.

    Parameters
    ----------
    file
        File with the requests; its format is recognised, also with .gz or .zst.
    json
        Print one JSON object instead of a table.
    """
    from paceline.cli.output import print_json

    document = describe(reading.read(file))
    if json:
        print_json(document)
    else:
        _print(document)


@app.command
def convert(file: Path, /, *, out: Path, reading: Reading = DEFAULT_READING) -> None:
    """Write a trace of any format that is read in Paceline's own schema.

    Parameters
    ----------
    file
        File with the requests; its format is recognised, also with .gz or .zst.
    out
        The new file: .csv or .jsonl, also with .gz or .zst, or .parquet.
    """
    _write(reading.read(file), out)


@app.command
def cut(
    file: Path, /, *, start: float = 0.0, end: float, out: Path, reading: Reading = DEFAULT_READING
) -> None:
    """Write the requests that arrive in a window, which then begins at 0.

    Parameters
    ----------
    file
        File with the requests.
    start
        Seconds after the first arrival; requests that arrive then are in the window.
    end
        Seconds after the first arrival; requests that arrive then are not.
    out
        The new file: .csv or .jsonl, also with .gz or .zst, or .parquet.
    """
    _write(reading.read(file).window(start, end), out)


@app.command
def scale(
    file: Path,
    /,
    *,
    rate: float | None = None,
    by: float | None = None,
    out: Path,
    reading: Reading = DEFAULT_READING,
) -> None:
    """Write the same requests with their arrivals closer together or further apart.

    Parameters
    ----------
    file
        File with the requests.
    rate
        Requests per second of the new trace.
    by
        Or times the present rate: 2 halves all gaps.
    out
        The new file: .csv or .jsonl, also with .gz or .zst, or .parquet.
    """
    from paceline.errors import TraceError

    if (rate is None) == (by is None):
        raise TraceError("give one of --rate and --by, such as --by 2 for twice the rate")
    _write(reading.read(file).at_rate(rate=rate, scale=by), out)


@app.command
def sample(
    file: Path,
    /,
    *,
    requests: int | None = None,
    fraction: float | None = None,
    seed: int = 0,
    out: Path,
    reading: Reading = DEFAULT_READING,
) -> None:
    """Write some of the requests, drawn at random, at their arrivals.

    Parameters
    ----------
    file
        File with the requests.
    requests
        How many.
    fraction
        Or the share of all, above 0 and at most 1.
    seed
        The same seed draws the same requests.
    out
        The new file: .csv or .jsonl, also with .gz or .zst, or .parquet.
    """
    from paceline.errors import TraceError

    if (requests is None) == (fraction is None):
        raise TraceError("give one of --requests and --fraction, such as --fraction 0.1 for a tenth")
    _write(reading.read(file).sample(requests, fraction=fraction, seed=seed), out)


def _write(trace: Trace, out: Path) -> None:
    from paceline.cli.interrupt import interruptible
    from paceline.cli.output import note

    interruptible(lambda: trace.write(out))
    note(f"wrote {len(trace):,} requests over {trace.span_s:,.1f} s to {out}")


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
