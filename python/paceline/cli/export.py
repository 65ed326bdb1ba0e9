"""`paceline export`: write a saved result in the format of a benchmark client."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

__all__ = ["export"]


def export(
    result: Path,
    /,
    *,
    out: Path,
    format: Literal["vllm", "aiperf", "llm-d", "openmetrics"] = "vllm",
    quiet: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Write a saved result in the format of a benchmark client, for tools that read these.

    Parameters
    ----------
    result
        Directory of a result, as `paceline replay --out` saves it.
    out
        The file to write; for aiperf a new folder.
    format
        vllm: the JSON of `vllm bench serve --save-result --save-detailed`, with the gaps between tokens if
        the replay recorded all its steps; aiperf: profile_export.jsonl and profile_export_aiperf.json;
        llm-d: its benchmark report 0.2.1, as JSON, or as YAML if the name ends in .yaml; openmetrics: the
        samples of a replay that was sampled, under the names of vLLM's metrics.
    quiet
        Print nothing to standard error but errors.
    """
    from paceline.benchmarks import write_bench
    from paceline.cli.interrupt import interruptible
    from paceline.cli.output import note
    from paceline.result import load_result

    interruptible(lambda: write_bench(load_result(result), out, format=format))
    if not quiet:
        note(f"wrote {out}")
