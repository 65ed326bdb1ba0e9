"""Reading the results of benchmark clients, which are recognised by their content."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from paceline import _check
from paceline._arguments import typed
from paceline.benchmarks.documents import Document, read_documents
from paceline.benchmarks.formats.aiperf import RECORDS, SUMMARY, is_record, read_aiperf
from paceline.benchmarks.formats.aiperf_summary import is_summary
from paceline.benchmarks.formats.guidellm import is_guidellm, read_guidellm
from paceline.benchmarks.formats.inference_perf import (
    PER_REQUEST,
    STAGE,
    is_requests,
    is_stage,
    read_inference_perf,
)
from paceline.benchmarks.formats.llm_d import is_report, read_report
from paceline.benchmarks.formats.vllm import is_sglang, is_vllm, read_sglang, read_vllm
from paceline.benchmarks.model import BenchmarkResult
from paceline.errors import TraceError
from paceline.limits import Limits

__all__ = ["read_bench", "read_benches"]

_KNOWN = (
    "a result of vllm bench serve, SGLang's bench_serving, AIPerf, guidellm, inference-perf or llm-d's "
    "benchmark report"
)


@typed(TraceError)
def read_bench(
    path: str | os.PathLike[str], *, run: int | None = None, limits: Limits | None = None
) -> BenchmarkResult:
    """Read one run of a benchmark client.

    Parameters
    ----------
    path
        As of `read_benches`.
    run
        Which of several runs, from 0; None: the only one.
    limits
        As of `read_benches`.

    Raises
    ------
    TraceError
        As of `read_benches`; or the file has several runs and `run` is None, or has no such run.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> run = {
    ...     "model_id": "m", "completed": 1, "request_rate": "inf", "max_concurrency": 2,
    ...     "input_lens": [10], "output_lens": [3], "ttfts": [0.03], "itls": [[0.011, 0.012]],
    ...     "start_times": [812.1], "errors": [""],
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "result.json").write_text(json.dumps(run))
    ...     result = read_bench(pathlib.Path(folder, "result.json"))
    >>> result.tool, round(result.statistics()["tpot"]["mean"], 6)
    ('vllm', 0.0115)
    """
    found = read_benches(path, limits=limits)
    if run is None:
        if len(found) > 1:
            raise TraceError(f"{path}: has {len(found)} runs; say which, from 0 to {len(found) - 1}")
        return found[0]
    if not 0 <= run < len(found):
        raise TraceError(f"{path}: run must be from 0 to {len(found) - 1}, was {run}")
    return found[run]


@typed(TraceError)
def read_benches(path: str | os.PathLike[str], *, limits: Limits | None = None) -> list[BenchmarkResult]:
    """Read all runs of a benchmark client's file or folder, in its order.

    Parameters
    ----------
    path
        The JSON of ``vllm bench serve --save-result``, JSON Lines of several (``--append-result``) or of
        SGLang's ``bench_serving``, AIPerf's ``profile_export.jsonl`` or ``profile_export_aiperf.json``
        (each with the other, if it lies beside it), guidellm's ``benchmarks.json`` or ``.yaml``, an
        inference-perf folder or one of its files, or a benchmark report of llm-d. A folder of AIPerf's
        works, too. Plain, gzip or zstd.
    limits
        Bounds on what reading may take; None: `Limits.current`.

    Raises
    ------
    TraceError
        If it is none of these, or breaks a rule of its format: the message names the file, the field or the
        request, the rule and the value.
    FileNotFoundError, PermissionError
        As the system says.
    """
    _check.path(path, TraceError)
    path, limits = Path(path), Limits.current() if limits is None else limits
    if path.is_dir():
        return _folder(path, limits)
    documents = read_documents(path, limits)
    body = documents[0].body
    if is_requests(body) or is_stage(body):
        return _inference_perf(path, documents[0], limits)
    if not isinstance(body, Mapping):
        raise TraceError(f"{path}: must be {_KNOWN}, was none of them")
    if is_record(body):
        return [read_aiperf(_objects(documents), _beside(path, SUMMARY, limits))]
    if is_summary(body):
        records = path.with_name(RECORDS)
        lines = _objects(read_documents(records, limits)) if records.is_file() else []
        return [read_aiperf(lines, documents[0])]
    return [one for document in _objects(documents) for one in _of_document(document)]


def _of_document(document: Document) -> list[BenchmarkResult]:
    body = document.body
    if is_guidellm(body):
        found = read_guidellm(document)
        if not found:
            raise TraceError(f"{document.where}: must have at least one benchmark, had none")
        return found
    if is_report(body):
        return [read_report(document)]
    if is_sglang(body):
        return [read_sglang(document)]
    if is_vllm(body):
        return [read_vllm(document)]
    keys = ", ".join(list(map(str, body))[:8])
    raise TraceError(f"{document.where}: must be {_KNOWN}, had the fields {keys[:100]}")


def _objects(documents: Sequence[Document]) -> list[Document]:
    for document in documents:
        if not isinstance(document.body, Mapping):
            raise TraceError(f"{document.where}: must be a JSON object, was {_check.said(document.body)}")
    return list(documents)


def _beside(path: Path, name: str, limits: Limits) -> Document | None:
    """Return the object of another file of the folder; None if there is no such file."""
    other = path.with_name(name)
    if other == path or not other.is_file():
        return None
    return _objects(read_documents(other, limits)[:1])[0]


def _folder(path: Path, limits: Limits) -> list[BenchmarkResult]:
    if (path / RECORDS).is_file():
        return read_benches(path / RECORDS, limits=limits)
    if (path / SUMMARY).is_file():
        return read_benches(path / SUMMARY, limits=limits)
    for name in ("benchmarks.json", "benchmarks.yaml"):
        if (path / name).is_file():
            return read_benches(path / name, limits=limits)
    if not any(STAGE.fullmatch(file.name) or file.name == PER_REQUEST for file in path.iterdir()):
        raise TraceError(
            f"{path}: must hold {RECORDS}, benchmarks.json or stage_N_lifecycle_metrics.json, held none"
        )
    return _stages(path, None, limits)


def _inference_perf(path: Path, document: Document, limits: Limits) -> list[BenchmarkResult]:
    """Return the runs of one of the folder's files: one stage, or those of the list of requests."""
    stage = STAGE.fullmatch(path.name)
    if is_requests(document.body):
        if path.name == PER_REQUEST:
            return _stages(path.parent, None, limits)
        return list(read_inference_perf({}, document).values())
    if stage is None:
        return list(read_inference_perf({0: document}, None).values())
    return _stages(path.parent, int(stage[1]), limits)


def _stages(folder: Path, only: int | None, limits: Limits) -> list[BenchmarkResult]:
    """Return the runs of a folder; of one stage if it is given."""
    stages: dict[int, Document] = {}
    for file in sorted(folder.iterdir()):
        stage = STAGE.fullmatch(file.name)
        if stage is not None and only in (None, int(stage[1])):
            stages[int(stage[1])] = _objects(read_documents(file, limits)[:1])[0]
    requests = folder / PER_REQUEST
    rows = read_documents(requests, limits)[0] if requests.is_file() else None
    if rows is not None and not is_requests(rows.body):
        raise TraceError(
            f"{rows.where}: must be a list of requests with start_time, end_time and info, was none"
        )
    found = read_inference_perf(stages, rows)
    return list(found.values()) if only is None else [found[only]]
