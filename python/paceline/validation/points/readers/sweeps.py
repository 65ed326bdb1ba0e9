"""Runs of ``vllm bench serve`` in one table (GloriaXimingLu/inferencex-profiling, 237385b).

gpt-oss-120b on one H200 under vLLM 0.22.0, 8,000 tokens in and 1,000 out, each uniform from 0.8 of it. Where
a file ``requests_c*.csv`` beside it has the lengths of a run's first requests, these are replayed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from paceline.concurrency import Concurrency
from paceline.trace import Trace
from paceline.validation.points.names import model_of
from paceline.validation.points.point import Point, Server
from paceline.validation.points.readers.tables import Found, Row, each_row, known, table
from paceline.validation.points.refusals import NotModelled
from paceline.validation.points.workloads import Closed, Sent, Workload

__all__ = ["COLUMNS", "LENGTHS_COLUMNS", "read"]

COLUMNS = ("spec", "max_concurrency", "num_prompts", "total_input_tokens", "mean_e2el_ms", "run")
LENGTHS_COLUMNS = ("input_lens", "output_lens", "ttfts")


def read(file: Path, name: str) -> Found:
    """Yield the runs of a file."""
    lengths = {
        int(found.stem.removeprefix("requests_c")): table(found)
        for found in sorted(file.parent.glob("requests_c*.csv"))
        if found.stem.removeprefix("requests_c").isdigit()
    }
    yield from each_row(name, table(file), functools.partial(_point, lengths))


def _point(lengths: Mapping[int, pl.DataFrame], place: str, row: Row) -> Point:
    if row["spec"] != "none":
        raise NotModelled("drafts by EAGLE3, of a model that is not in the catalog")
    model, precision = model_of("gpt-oss-120b", None)
    concurrency = row["max_concurrency"]
    return Point(
        id=f"{place} ({row['run']})",
        server=Server(
            engine="vllm",
            version="0.22.0",
            model=model,
            gpu="h200",
            max_num_seqs=256,
            max_num_batched_tokens=8192,
        ),
        precision=precision,
        workload=_workload(lengths.get(concurrency), row),
        measured=known(
            ttft=1e-3 * row["mean_ttft_ms"],
            tpot=1e-3 * row["mean_tpot_ms"],
            e2e=1e-3 * row["mean_e2el_ms"],
            throughput=row["output_throughput"],
        ),
        in_flight=float(concurrency),
        fitted="rate of experts",
    )


def _workload(lengths: pl.DataFrame | None, row: Row) -> Workload:
    """Return the run's own lengths where their prompts add up to those that it sent, else drawn ones."""
    requests = row["num_prompts"]
    if lengths is not None and int(lengths["input_lens"].head(requests).sum()) == row["total_input_tokens"]:
        first = lengths.head(requests)
        trace = Trace.from_columns(
            arrival=np.zeros(requests),
            prompt_tokens=first["input_lens"],
            output_tokens=first["output_lens"],
            name="sweep",
        )
        return Sent(trace, Concurrency(row["max_concurrency"]))
    return Closed(
        prompt_tokens=8000, output_tokens=1000, concurrency=row["max_concurrency"], requests=requests
    )
