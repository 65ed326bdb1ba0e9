"""Prefill and decode apart, measured by ``vllm bench serve`` (llm-d/llm-d-benchmark 52d328c, Apache-2.0).

Llama-3.1-8B on one node of H100, one instance that prefills and one that decodes (NIXL over CUDA IPC) or two
replicas, vLLM of May 2025 (about 0.8.5).
"""

from __future__ import annotations

from pathlib import Path

from paceline.validation.points.names import gpu_of, model_of
from paceline.validation.points.point import Point, Server
from paceline.validation.points.readers.tables import Found, Row, each_row, known, table
from paceline.validation.points.refusals import NotModelled
from paceline.validation.points.workloads import Spaced

__all__ = ["COLUMNS", "TOTALS_COLUMNS", "read", "read_totals"]

COLUMNS = ("deployment", "burstiness", "request_rate", "num_prompts", "mean_ttft_ms")
TOTALS_COLUMNS = ("stack", "conc", "total_tok_s", "med_tpot_ms")

#: Seconds of a step of Llama-3.1-8B that runs without CUDA graphs (``--enforce-eager``) beyond its kernels.
#: Read off the median gap between tokens of an instance that decodes, 11.1 to 11.3 ms with 12 requests; with
#: it the mean TPOT of two replicas is 4% short to 4% long in three runs, 20 to 26% short without.
_EAGER_S = 2e-3


def read(file: Path, name: str) -> Found:
    """Yield the runs of a file."""
    yield from each_row(name, table(file), _point)


def read_totals(file: Path, name: str) -> Found:
    """Refuse each run: the lengths of its requests are not in the data."""
    yield from each_row(name, table(file), _no_lengths)


def _no_lengths(place: str, row: Row) -> Point:
    raise NotModelled("the lengths of the requests are not in the data")


def _point(place: str, row: Row) -> Point:
    apart = "1p1d" in row["deployment"]
    if not apart and "2replicas" not in row["deployment"]:
        raise NotModelled(f"a deployment of another kind, {row['deployment']}")
    model, precision = model_of(row["model_id"], None)
    requests = row["num_prompts"]
    ttft, tpot = 1e-3 * row["mean_ttft_ms"], 1e-3 * row["mean_tpot_ms"]
    outputs = round(row["total_output_tokens"] / requests)
    e2e = ttft + tpot * (outputs - 1)
    return Point(
        id=f"{place} ({row['deployment']})",
        server=Server(
            engine="vllm",
            version="0.8.5",
            model=model,
            gpu=gpu_of(row["gpu"]),
            instances=2,
            prefill=1 if apart else 0,
            step_s=_EAGER_S,
        ),
        precision=precision,
        workload=Spaced(
            prompt_tokens=round(row["total_input_tokens"] / requests),
            output_tokens=outputs,
            requests=requests,
            rate=row["request_rate"],
            burstiness=row["burstiness"],
        ),
        measured=known(ttft=ttft, tpot=tpot, throughput=row["output_throughput"]),
        in_flight=row["request_throughput"] * e2e / (1 if apart else 2),
    )
