"""The JSON of ``vllm bench serve --save-result --save-detailed`` (``vllm/benchmarks/serve.py``, 009e6d4)."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from paceline.benchmarks.definitions import Served, definitions_of
from paceline.benchmarks.served import served_by
from paceline.benchmarks.writing.facts import facts_of, token_gaps
from paceline.result import Result

__all__ = ["vllm_text"]

_WORDS: Final = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}


def vllm_text(result: Result) -> str:
    """Return a replay as vLLM's client writes a run of which it saves the details.

    A request that did not finish keeps its place with an output length of 0 and its reason under
    ``errors``, as failed requests do. ``start_times`` are seconds from the trace's start.

    Raises
    ------
    ResultError
        If no request finished.
    """
    facts, version = facts_of(result), result.provenance.version
    rows, finished = facts.rows, facts.finished
    done = rows.get_column("failure").is_null().to_numpy()
    inputs, outputs = (
        int(finished.get_column(name).to_numpy().sum()) for name in ("prompt_tokens", "output_tokens")
    )
    span = facts.duration_s or None
    document: dict[str, Any] = {
        "date": "19700101-000000",
        "endpoint_type": "paceline",
        "backend": "paceline",
        "label": None,
        "model_id": facts.model,
        "tokenizer_id": facts.model,
        "num_prompts": len(rows),
        "paceline_version": version,
        "request_rate": facts.rate or (None if facts.max_concurrency else "inf"),
        "burstiness": None,
        "max_concurrency": facts.max_concurrency,
        "duration": facts.duration_s,
        "completed": len(finished),
        "failed": len(rows) - len(finished),
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": span and len(finished) / span,
        "request_goodput": None,
        "output_throughput": span and outputs / span,
        "total_token_throughput": span and (inputs + outputs) / span,
        "input_lens": rows.get_column("prompt_tokens").to_list(),
        "output_lens": np.where(done, rows.get_column("output_tokens").to_numpy(), 0).tolist(),
        "ttfts": rows.get_column("ttft").fill_null(0.0).to_list(),
        "latencies": rows.get_column("e2e").fill_null(0.0).to_list(),
        "start_times": rows.get_column("arrival").fill_null(0.0).to_list(),
        "generated_texts": [""] * len(rows),
        "errors": rows.get_column("failure").fill_null("").to_list(),
    }
    gaps = token_gaps(result, finished)
    if gaps is not None:
        document["itls"] = _placed(gaps, done)
    if facts.max_concurrency is None:
        # Each request was sent when it was ready.
        document["queue_times"] = [0.0] * len(rows)
    served = served_by(result)
    for metric, definition in definitions_of("vllm").items():
        statistics = definition.statistics(served)
        if statistics:
            word = _WORDS[metric]
            document |= {f"{name}_{word}_ms": 1000.0 * value for name, value in statistics.items()}
            document[f"std_{word}_ms"] = 1000.0 * _deviation(result, metric, served)
    return json.dumps(document, allow_nan=False) + "\n"


def _placed(gaps: list[list[float]], done: Any) -> list[list[float]]:  # noqa: ANN401 - an array
    """Return a list for each request, empty for those that did not finish."""
    each = iter(gaps)
    return [next(each) if finished else [] for finished in done]


def _deviation(result: Result, metric: str, served: Served) -> float:
    if metric == "itl":
        variance = result.itl.variance
        return 0.0 if variance is None else float(np.sqrt(variance))
    values = {"ttft": served.ttft, "e2e": served.e2e, "tpot": served.decode()[0]}[metric]
    return float(values.std())
