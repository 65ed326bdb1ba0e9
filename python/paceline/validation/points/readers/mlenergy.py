"""Points of ml-energy/leaderboard (0cd52da): servers kept full, vLLM 0.11.1 on H100 and B200."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import msgspec

from paceline.errors import ConfigError
from paceline.trace.opening import content
from paceline.validation.points.names import gpu_of, model_of
from paceline.validation.points.point import Point, Server
from paceline.validation.points.readers.tables import Found, Row, each_row, known, table
from paceline.validation.points.refusals import ATTENTION_PARALLEL, NotModelled
from paceline.validation.points.workloads import Saturated

__all__ = ["COLUMNS", "read"]

COLUMNS = ("task", "model_id", "gpu_model", "avg_batch_size", "output_throughput_tokens_per_sec")
#: Tokens of GPQA's prompts: not in the data. A request's context there is 4,000 tokens and more on average,
#: of which 250 are 6%; prompts of the other tasks are a larger part, so these are refused.
_GPQA_PROMPT = 250
_BATCHED_TOKENS = 8192


def read(file: Path, name: str) -> Found:
    """Yield the points of a file, with the histograms of output lengths in the folder beside it."""
    lengths = file.parent / "workload" / "output_length_hist.json"
    histograms: dict[str, Any] = {}
    if lengths.is_file():
        try:
            histograms = msgspec.json.decode(content(lengths, error=ConfigError), type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{lengths} must be a JSON object: {error}") from error
    yield from each_row(name, table(file), functools.partial(_point, histograms))


def _point(histograms: dict[str, Any], place: str, row: Row) -> Point:
    if row["task"] != "gpqa":
        raise NotModelled("the lengths of the prompts are not in the data")
    if row["gpu_model"] == "B200":
        raise NotModelled("doubtful: a constant 20 to 30 ms a step")
    if (row["data_parallel"] or 1) > 1:
        raise NotModelled(ATTENTION_PARALLEL)
    histogram = histograms.get(f"{row['model_id']}|{row['task']}")
    if histogram is None:
        raise NotModelled("the lengths of the answers are not in the data")
    model, precision = model_of(row["model_id"], row["weight_precision"])
    tensor, dealt = row["tensor_parallel"], row["expert_parallel"] or 1
    running, throughput = row["avg_batch_size"], row["output_throughput_tokens_per_sec"]
    return Point(
        id=place,
        server=Server(
            engine="vllm",
            version="0.11.1",
            model=model,
            gpu=gpu_of(row["gpu_model"]),
            tensor_parallel=max(tensor, dealt),
            expert_parallel=dealt > 1,
            max_num_seqs=row["max_num_seqs"],
            max_num_batched_tokens=_BATCHED_TOKENS,
        ),
        precision=precision,
        workload=Saturated(
            prompt_tokens=_GPQA_PROMPT,
            edges=tuple(histogram["bins"]),
            counts=tuple(histogram["counts"]),
            concurrency=row["max_num_seqs"],
        ),
        # By Little's law, a running request waits running / throughput for a token.
        measured=known(tpot=running / throughput, throughput=throughput),
        in_flight=float(running),
        fitted="host time of a step",
    )
