"""Results of ``vllm bench serve --save-result`` and of SGLang's ``bench_serving``, which grew out of it.

vLLM 009e6d4 (``vllm/benchmarks/serve.py``): one JSON object, or with ``--append-result`` one a line. With
``--save-detailed`` it has arrays by request, in which a failed request keeps its place: its ``output_lens``
is 0 or its ``errors`` entry is not empty. ``itls`` has an entry for each *chunk* after the first.
``start_times`` are of a clock without an epoch, and are taken after the client's limit let the request go;
so is TTFT.

SGLang 0033168 (``python/sglang/bench_serving.py``): one object a line, with the same arrays under
``--output-details`` but without start times and latencies. Such a file validates, and does not say when
requests arrived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from paceline.benchmarks.documents import Document, converted, count_if
from paceline.benchmarks.formats.stated import flat_ms
from paceline.benchmarks.model import BenchmarkLoad, BenchmarkResult, BenchmarkTotals
from paceline.benchmarks.rows import known, no_requests, requests_frame, same_length
from paceline.errors import TraceError

__all__ = ["is_sglang", "is_vllm", "read_sglang", "read_vllm"]

Number = int | float

_ONLY_SGLANG: Final = (
    "accept_length",
    "total_output_tokens_retokenized",
    "mean_e2e_latency_ms",
    "input_throughput",
    "dataset_name",
)
_ONLY_VLLM: Final = ("num_prompts", "model_id", "endpoint_type", "total_token_throughput")


class _File(msgspec.Struct):
    """The fields that both tools write."""

    model_id: str | None = None
    request_rate: Number | str | None = None
    burstiness: Number | None = None
    max_concurrency: int | None = None
    ramp_up_strategy: str | None = None
    ramp_up_start_rps: Number | None = None
    ramp_up_end_rps: Number | None = None
    duration: Number | None = None
    completed: int | None = None
    failed: int | None = None
    num_prompts: int | None = None
    total_input_tokens: int | None = None
    total_output_tokens: int | None = None
    request_throughput: Number | None = None
    output_throughput: Number | None = None
    total_token_throughput: Number | None = None
    accept_length: Number | None = None
    input_lens: list[int] | None = None
    output_lens: list[int] | None = None
    ttfts: list[Number] | None = None
    itls: list[list[Number]] | None = None
    start_times: list[Number] | None = None
    latencies: list[Number] | None = None
    queue_times: list[Number] | None = None
    errors: list[str | None] | None = None


def is_sglang(body: Mapping[str, Any]) -> bool:
    """Return whether an object is a result of SGLang's client."""
    return "completed" in body and any(name in body for name in _ONLY_SGLANG)


def is_vllm(body: Mapping[str, Any]) -> bool:
    """Return whether an object is a result of vLLM's client."""
    return "completed" in body and any(name in body for name in _ONLY_VLLM) and not is_sglang(body)


def read_vllm(document: Document) -> BenchmarkResult:
    """Return the result of vLLM's client.

    Raises
    ------
    TraceError
        If a field is of another type, or arrays differ in length.
    """
    words = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}
    return _read(document, "vllm", words)


def read_sglang(document: Document) -> BenchmarkResult:
    """Return the result of SGLang's client.

    Raises
    ------
    TraceError
        As of `read_vllm`.
    """
    words = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2e_latency"}
    return _read(document, "sglang", words)


def _read(document: Document, tool: str, words: Mapping[str, str]) -> BenchmarkResult:
    file = converted(document.body, _File, document.where)
    where, lacks, notes = document.where, [], []
    requests = no_requests()
    if file.input_lens is None or file.output_lens is None or file.ttfts is None:
        option = "--save-detailed" if tool == "vllm" else "--output-details"
        lacks.append(f"lengths and latencies of requests ({option} saves them)")
    elif file.latencies is None and file.itls is None:
        lacks.append("the gaps or the latencies of requests")
    else:
        requests = _requests(file, where)
    if file.start_times is None:
        lacks.append("when requests were sent")
    if file.queue_times is None:
        lacks.append("when requests were to be sent")
    rows = requests.get_column("failure").null_count()
    if len(requests) and file.completed is not None and file.completed != rows:
        notes.append(f"the file says that {file.completed:,} requests completed, and has {rows:,} that did")
    if file.accept_length is not None and file.accept_length > 1:
        notes.append(f"the server decoded {file.accept_length:g} tokens a step with speculative decoding")
    return BenchmarkResult(
        name=where,
        tool=tool,
        model=file.model_id,
        requests=requests,
        load=_load(file, where),
        totals=BenchmarkTotals(
            duration_s=known(file.duration),
            completed=file.completed,
            failed=_failed(file),
            input_tokens=file.total_input_tokens,
            output_tokens=file.total_output_tokens,
            request_throughput=known(file.request_throughput),
            output_throughput=known(file.output_throughput),
            total_throughput=known(file.total_token_throughput),
        ),
        stated=flat_ms(document.body, words),
        lacks=tuple(lacks),
        notes=tuple(notes),
    )


def _failed(file: _File) -> int | None:
    """Return the failed requests; older versions only say how many were asked."""
    if file.failed is None and file.num_prompts is not None and file.completed is not None:
        return max(file.num_prompts - file.completed, 0)
    return file.failed


def _load(file: _File, where: str) -> BenchmarkLoad:
    rate = file.request_rate
    try:
        number = None if rate is None else float(rate)
    except ValueError as error:
        raise TraceError(f"{where}: request_rate must be a number or inf, was {rate!r}") from error
    if number is not None and not number > 0:
        raise TraceError(f"{where}: request_rate must be above 0, was {rate}")
    if file.burstiness is not None and not file.burstiness > 0:
        raise TraceError(f"{where}: burstiness must be above 0, was {file.burstiness}")
    ramp = None
    if file.ramp_up_strategy is not None:
        ramp = f"{file.ramp_up_strategy} from {file.ramp_up_start_rps} to {file.ramp_up_end_rps} requests/s"
    return BenchmarkLoad(
        rate=number,
        burstiness=None if file.burstiness is None else float(file.burstiness),
        max_concurrency=count_if(file.max_concurrency, f"{where}: max_concurrency"),
        ramp=ramp,
    )


def _requests(file: _File, where: str) -> Any:  # noqa: ANN401 - a frame
    """Return the requests of the arrays."""
    inputs, outputs, ttfts = file.input_lens or [], file.output_lens or [], file.ttfts or []
    arrays: dict[str, Sequence[Any] | None] = {
        "input_lens": inputs,
        "output_lens": outputs,
        "ttfts": ttfts,
        "itls": file.itls,
        "start_times": file.start_times,
        "latencies": file.latencies,
        "queue_times": file.queue_times,
        "errors": file.errors,
    }
    count = same_length(arrays, where)
    errors = file.errors or [None] * count
    failure = [
        (error.strip().splitlines() or [""])[-1][:200] or "no text"
        if error
        else (None if tokens else "no output")
        for error, tokens in zip(errors, outputs, strict=True)
    ]
    e2e = file.latencies
    if e2e is None:
        # A request's latency ends with its last chunk.
        e2e = [first + sum(gaps) for first, gaps in zip(ttfts, file.itls or [], strict=True)]
    scheduled = None
    if file.queue_times is not None and file.start_times is not None:
        scheduled = [sent - wait for sent, wait in zip(file.start_times, file.queue_times, strict=True)]
    return requests_frame(
        {
            "scheduled": scheduled,
            "sent": file.start_times,
            "prompt_tokens": inputs,
            "output_tokens": outputs,
            "measured_ttft": ttfts,
            "measured_e2e": e2e,
            "measured_client_queueing": file.queue_times,
            "gaps": file.itls,
            "failure": failure,
        },
        where,
    )
