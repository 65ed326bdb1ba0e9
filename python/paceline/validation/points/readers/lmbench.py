"""Runs of lmbench by llm-d/llm-d-benchmark (52d328c, Apache-2.0): each request of several rates in one file.

Llama-3.1-70B in bfloat16 on two GPUs an instance, vLLM of May 2025 (about 0.8.5), behind a balancer that
picks an instance at random. The file's name says the number of instances, and H100; the others are A100.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl

from paceline.trace import Trace
from paceline.validation.points.names import gpu_of, model_of
from paceline.validation.points.point import Point, Refused, Server
from paceline.validation.points.readers.tables import Found, table
from paceline.validation.points.workloads import Sent

__all__ = ["COLUMNS", "SUMMARY_COLUMNS", "read"]

COLUMNS = ("qps", "launch_s", "prompt_tokens", "generation_tokens", "ttft_s", "finish_s")
SUMMARY_COLUMNS = ("exp", "arm", "qps", "launch_span_s")
#: A run whose later requests take so much longer than its earlier ones has a queue that grows.
_GROWTH = 1.5
#: A run with a smaller share of the requests of the rate before it was cut off. In the one file with such a
#: run, two H100 instances reach 966 tokens a second before it, and 540 at every higher rate after it.
_CUT_OFF = 0.5
#: ``--gpu-memory-utilization`` of llm-d-benchmark (``setup/env.sh``), less the 1.79 GiB of 79.2 that a second
#: rank takes outside PyTorch (vLLM pull request 10511 logs 3.58 GiB of each of two H100, and 1.79 of one).
_MEMORY = 0.95 - 1.79 / 79.2


def read(file: Path, name: str) -> Found:
    """Yield a point for each rate of a file."""
    replicas = re.search(r"(\d+)replicas", file.name)
    model, precision = model_of("llama-3.1-70b", None)
    server = Server(
        engine="vllm",
        version="0.8.5",
        model=model,
        gpu=gpu_of("h100" if "H100" in file.name else "a100"),
        tensor_parallel=2,
        instances=int(replicas[1]) if replicas else 1,
        memory=_MEMORY,
    )
    rows = table(file).filter(pl.col("generation_tokens") > 0)
    before, whole = 0, True
    for rate in rows["qps"].unique().sort():
        run = rows.filter(pl.col("qps") == rate).sort("launch_s", maintain_order=True)
        place = f"{name}#{rate:g} requests/s"
        whole = whole and len(run) >= _CUT_OFF * before
        before = len(run)
        if whole:
            yield _point(place, server, precision, run)
        else:
            yield Refused(id=place, reason="doubtful: since a run that was cut off, fewer instances serve")


def _point(place: str, server: Server, precision: str, run: pl.DataFrame) -> Point:
    launch, finish = (run[column].to_numpy().astype(np.float64) for column in ("launch_s", "finish_s"))
    ttft, outputs = run["ttft_s"].to_numpy(), run["generation_tokens"].to_numpy().astype(np.int64)
    launch, finish = launch - launch.min(), finish - launch.min()
    several = outputs > 1
    e2e = finish - launch
    fifth = max(1, len(run) // 5)
    trace = Trace.from_columns(
        arrival=launch, prompt_tokens=run["prompt_tokens"].clip(1), output_tokens=outputs, name=place
    )
    return Point(
        id=place,
        server=server,
        precision=precision,
        workload=Sent(trace),
        measured={
            "ttft": float(ttft.mean()),
            "tpot": float(((e2e - ttft)[several] / (outputs[several] - 1)).mean()),
            "e2e": float(e2e.mean()),
            "throughput": float(outputs.sum() / finish.max()),
        },
        in_flight=float(e2e.sum() / finish.max()) / server.instances,
        edge=bool(e2e[-fifth:].mean() > _GROWTH * e2e[fifth : 2 * fifth].mean()),
        fitted="front end",
    )
