"""A replay written as a benchmark client would have measured it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from paceline import _check
from paceline._arguments import typed
from paceline._atomic import new_directory, new_file
from paceline.benchmarks.writing.aiperf import aiperf_files
from paceline.benchmarks.writing.llm_d import report_text
from paceline.benchmarks.writing.openmetrics import openmetrics_text
from paceline.benchmarks.writing.vllm import vllm_text
from paceline.errors import ResultError
from paceline.result import Result

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BenchFormat", "write_bench"]

BenchFormat: TypeAlias = Literal["vllm", "aiperf", "llm-d", "openmetrics"]
"""The formats that `write_bench` writes."""

_FILES: dict[str, Callable[[Result, Path], str]] = {
    "vllm": lambda result, _: vllm_text(result),
    "llm-d": report_text,
    "openmetrics": lambda result, _: openmetrics_text(result),
}


@typed(ResultError)
def write_bench(result: Result, path: str | os.PathLike[str], *, format: BenchFormat = "vllm") -> Path:
    """Write a replay in the format of a benchmark client, for tools that read these.

    Parameters
    ----------
    result
        The replay.
    path
        The file, which is replaced if it exists; the folder for ``"aiperf"``, which must be new or empty.
    format
        ``"vllm"``: the JSON of ``vllm bench serve --save-result --save-detailed``; ``"aiperf"``: a folder
        with ``profile_export.jsonl`` and ``profile_export_aiperf.json``; ``"llm-d"``: its benchmark report
        0.2.1, as JSON, or as YAML if the path ends in ``.yaml`` or ``.yml``; ``"openmetrics"``: the samples
        of the timeline under the names of vLLM's metrics.

    Returns
    -------
    pathlib.Path
        The path.

    Raises
    ------
    ResultError
        If no request finished, the replay was not sampled (``"openmetrics"``), PyYAML is not installed
        (YAML), or the file cannot be written.

    Examples
    --------
    >>> import paceline, pathlib, tempfile
    >>> trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[8], output_tokens=[3])
    >>> cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=9)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_bench(paceline.replay(trace, cluster), pathlib.Path(folder, "result.json"))
    ...     paceline.read_bench(written).statistics()["e2e"]["mean"]
    1.5

    Notes
    -----
    A replay has no date: its time 0 is written as the start of 1970. Gaps between tokens are in vLLM's file
    if the replay recorded all its steps (``record=``); else its ``itls`` are left out, while the statistics
    of ITL come from the sketch of all gaps, within 1/256.
    """
    _check.path(path, ResultError)
    target = Path(path)
    try:
        if format == "aiperf":
            if target.exists() and (not target.is_dir() or any(target.iterdir())):
                raise ResultError(
                    f"{target}: must be a new or an empty folder for aiperf's two files, was not"
                )
            files = aiperf_files(result)
            with new_directory(target) as draft:
                for name, text in files.items():
                    (draft / name).write_text(text, encoding="utf-8")
            return target
        text = _FILES[format](result, target)
        with new_file(target) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultError(f"{target}: could not be written: {error.strerror or error}") from error
    return target
