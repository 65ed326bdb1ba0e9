"""Reading a trace from a file."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Final, Literal

import polars as pl

from paceline._arguments import typed
from paceline._fork import use
from paceline.errors import TraceError, TraceWarning
from paceline.limits import Limits
from paceline.trace.choices import Arrivals, Choices, Unit
from paceline.trace.detection import Recognised, recognise
from paceline.trace.known import UNITS, Format
from paceline.trace.model import Trace
from paceline.trace.opening import content
from paceline.trace.parents import without_lost
from paceline.trace.parsed import Parsed
from paceline.trace.plausible import check_unit
from paceline.trace.rows import Rows
from paceline.trace.source import Source

__all__ = ["read_trace"]

_READERS: Final[dict[Format, tuple[str, str]]] = {
    "azure": ("azure", "read_azure"),
    "burstgpt": ("burstgpt", "read_burstgpt"),
    "mooncake": ("mooncake", "read_mooncake"),
    "agentic_mooncake": ("agentic_mooncake", "read_agentic_mooncake"),
    "mooncake-delta": ("mooncake_delta", "read_mooncake_delta"),
    "timed_trace": ("mooncake", "read_timed_trace"),
    "applied_compute_agentic": ("applied_compute", "read_applied_compute"),
    "bailian": ("bailian", "read_bailian"),
    "baseten": ("baseten", "read_baseten"),
    "aibrix": ("aibrix", "read_aibrix"),
    "vidur": ("vidur", "read_vidur"),
    "dynamo": ("dynamo", "read_dynamo"),
    "weka": ("weka", "read_weka"),
    "tracelab": ("tracelab", "read_tracelab"),
    "llmservingsim": ("llmservingsim", "read_llmservingsim"),
    "otel": ("otel", "read_otel"),
    "paceline": ("own", "read_own"),
}
"""The module and the function that read a format; the module is imported when a file has the format."""


@typed(TraceError)
def read_trace(
    path: str | Path,
    *,
    format: Format | None = None,
    on_empty_output: Literal["drop", "error"] = "drop",
    limits: Limits | None = None,
    columns: Mapping[str, str] | None = None,
    unit: Unit | None = None,
    block_tokens: int | None = None,
    arrivals: Arrivals | None = None,
) -> Trace:
    """Read a trace in any known format, which is recognised from its content.

    Parameters
    ----------
    path
        A CSV of Azure, BurstGPT or Vidur; JSON Lines of Mooncake, Dynamo, aiperf, vLLM's ``timed_trace``,
        Applied Compute, Alibaba's Bailian, AIBrix, TraceLab, Weka and AgentX, LLMServingSim; OpenTelemetry's
        spans in JSON; Parquet of Baseten; or Paceline's own schema as CSV, JSON Lines or Parquet. Text may be
        packed with gzip or zstd.
    format
        Accept one format only, by its name in `traces/schema.md`. ``"mooncake-delta"`` and
        ``"timed_trace"`` have the fields of ``"mooncake"`` with another meaning, and must be asked for.
    on_empty_output
        What to do with requests that have no output tokens, as BurstGPT's failed ones: drop them and count
        them in `Trace.dropped`, or refuse the file.
    limits
        Bounds on what reading may take: bytes after decompression, values, columns, bytes of a line. None:
        :meth:`Limits.current <paceline.limits.Limits.current>`, which admits ten million requests.
    columns
        The file's name of each column that it has by another name than the schema's:
        ``{"arrival": "arrival_s"}``. The others are kept by their own names.
    unit
        The unit of the file's stamps, ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``. None: the format's own.
    block_tokens
        Prompt tokens of one prefix id. None: as the format says.
    arrivals
        ``"recorded"``: requests arrive at their stamps, whatever the replayed cluster does.
        ``"dependent"``: a request that followed an answer, as the next turn of a chat or a call of an agent
        does, arrives after that answer in the replay, as long after it as the file says or lets conclude.
        None: recorded where every row has a stamp of one clock, else dependent; of Paceline's own schema, as
        its columns ``think_time`` and ``parents`` say.

    Returns
    -------
    Trace
        Sorted by arrival, equal arrivals in the file's order.

    Raises
    ------
    TraceError
        The file breaks a rule; the message names the file, the line, the rule and the value. Or it exceeds
        a limit; the message names the limit.
    FileNotFoundError, PermissionError
        As the system says.

    Notes
    -----
    A Parquet file that `Trace.write` made is checked against its checksum first. One from another tool is
    parsed in a child process first, as damaged bytes may make polars end the process; see `traces/schema.md`.

    Examples
    --------
    >>> trace = read_trace("traces/azure-conv-1000.csv")
    >>> len(trace), trace.source.kind
    (1000, 'paceline')
    """
    use()
    path = Path(path)
    name = str(path)
    if on_empty_output not in ("drop", "error"):
        raise TraceError(f"on_empty_output must be 'drop' or 'error', was {on_empty_output!r}")
    limits = Limits.current() if limits is None else limits
    found = recognise(content(path, limits=limits), name, format, limits, columns)
    choices = Choices(unit=unit, block_tokens=block_tokens, arrivals=arrivals)
    choices.check(found.format, name)
    parsed = _reader(found.format)(replace(found, choices=choices), name)
    if "arrival" in parsed.frame.columns and choices.unit_is_open(found.format):
        check_unit(
            parsed.frame.get_column("arrival"), choices.unit or UNITS.get(found.format, "s"), parsed.rows
        )
    frame, rows, dropped = _without_empty(parsed, refuse=on_empty_output == "error")
    try:
        return Trace(
            frame,
            name=_stem(path),
            source=Source(kind=found.format, path=name, detail=parsed.detail),
            dropped={**parsed.dropped, **dropped},
            prefix_block_tokens=parsed.prefix_block_tokens,
            _rows=rows,
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        # Parquet has types that polars cannot convert in every case.
        raise TraceError(f"{name}: a column cannot be converted to the schema's type: {error}") from error


def _reader(format: Format) -> Callable[[Recognised, str], Parsed]:
    module, function = _READERS[format]
    reader: Callable[[Recognised, str], Parsed] = getattr(
        import_module(f"paceline.trace.formats.{module}"), function
    )
    return reader


def _without_empty(parsed: Parsed, *, refuse: bool) -> tuple[pl.DataFrame, Rows, dict[str, int]]:
    if "output_tokens" not in parsed.frame.columns:
        return parsed.frame, parsed.rows, {}
    output = parsed.frame.get_column("output_tokens")
    if not output.dtype.is_numeric():
        return parsed.frame, parsed.rows, {}
    empty = (output == 0).fill_null(value=False)
    count = int(empty.sum())
    if count == 0:
        return parsed.frame, parsed.rows, {}
    first = empty.arg_max()
    assert first is not None
    if refuse:
        raise TraceError(f"{parsed.rows.locate(first)}: output_tokens must be at least 1, was 0")
    if count == parsed.frame.height:
        raise TraceError(f"{parsed.rows.name}: must have a request with output, all {count} rows have none")
    kept = (~empty).arg_true().to_numpy()
    frame, lost = without_lost(parsed.frame.filter(~empty))
    if lost:
        warnings.warn(
            f"{parsed.rows.name}: {lost} parents have no output and are dropped; requests wait for their "
            "other parents, or arrive at their arrival if none is left",
            TraceWarning,
            stacklevel=4,
        )
    return frame, parsed.rows.kept(kept), {"no output": count}


def _stem(path: Path) -> str:
    name = path.name
    for suffix in (".zst", ".gz", ".csv", ".jsonl", ".json", ".parquet"):
        name = name.removesuffix(suffix)
    return name or path.name
