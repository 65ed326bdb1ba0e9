"""`paceline validate`: replay a measured run, and print how close the latencies come."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["validate"]


def validate(
    folder: Path,
    *,
    overhead: float | None = None,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Replay a measured run and compare TTFT, TPOT and E2E latency with what was measured.

    Parameters
    ----------
    folder
        With requests.parquet, engine.json and profile/, and perhaps peer-llmservingsim.txt.
    overhead
        Microseconds of a step that no kernel explains. By default what was fitted for the engine's version.
    json
        Print one JSON object instead of a table: seconds, by metric and statistic.
    """
    from paceline.cli.output import console, print_json, table
    from paceline.validation import validate as compare

    comparison = compare(folder, overhead_s=None if overhead is None else 1e-6 * overhead)
    if json:
        print_json(comparison.to_json())
        return
    rows = [
        [
            f"{metric.upper()} {statistic}",
            f"{1e3 * measured:,.1f}",
            f"{1e3 * predicted:,.1f}",
            f"{100 * ours:+.1f}%",
            "" if theirs is None else f"{100 * theirs:+.1f}%",
        ]
        for metric, statistic, measured, predicted, ours, theirs in comparison.rows()
    ]
    console().print(table([comparison.name, "measured ms", "predicted ms", "off by", "peer off by"], rows))
    for note in comparison.notes:
        console().print(note)
