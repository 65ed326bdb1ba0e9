"""Points of InferenceX (several repositories, GPL-3.0 and Apache-2.0; column ``src``): closed loops, in s."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from paceline.validation.points.names import engine_version, gpu_of, model_of
from paceline.validation.points.point import Engine, Point, Server
from paceline.validation.points.readers.scripts import fitted_on, flags_of
from paceline.validation.points.readers.tables import Found, Row, each_row, known, table
from paceline.validation.points.refusals import APART, ATTENTION_PARALLEL, DRAFTS, MIXED_EXPERTS, NotModelled
from paceline.validation.points.workloads import Closed

__all__ = ["COLUMNS", "read"]

COLUMNS = ("framework", "conc", "median_tpot", "median_ttft", "decode_tp", "decode_ep", "is_multinode")
_ENGINES: dict[str, Engine] = {"vllm": "vllm", "sglang": "sglang", "trt": "trtllm"}


def read(file: Path, name: str) -> Found:
    """Yield the points of a file: means, or medians where it has no means."""
    yield from each_row(name, table(file), _point)


def _point(place: str, row: Row) -> Point:
    if row["src"].startswith("together"):
        raise NotModelled("doubtful: a set of low quality")
    if row["disagg"] or row["is_multinode"]:
        raise NotModelled(APART)
    if row["spec_method"] != "none":
        raise NotModelled(DRAFTS)
    if row["decode_dp_attention"]:
        raise NotModelled(ATTENTION_PARALLEL)
    model, precision = model_of(row["model"], row["precision"])
    tensor, dealt = row["decode_tp"], row["decode_ep"] or 1
    if dealt not in (1, tensor):
        raise NotModelled(MIXED_EXPERTS)
    statistic: Literal["mean", "median"] = "median" if row["mean_tpot"] is None else "mean"
    throughput = row["output_tput_per_gpu"]
    engine, gpu = _ENGINES[row["framework"]], gpu_of(row["hardware"])
    version = engine_version(row["image"])
    flags = flags_of(engine, model.name, gpu, tensor, (row["isl"], row["conc"]))
    return Point(
        id=place,
        server=Server(
            engine=engine,
            version=version,
            model=model,
            gpu=gpu,
            tensor_parallel=tensor,
            expert_parallel=dealt > 1,
            **flags._asdict(),
        ),
        precision=precision,
        workload=Closed(
            prompt_tokens=row["isl"],
            output_tokens=row["osl"],
            concurrency=row["conc"],
            requests=10 * row["conc"],
        ),
        measured=known(
            ttft=row[f"{statistic}_ttft"],
            tpot=row[f"{statistic}_tpot"],
            e2e=row[f"{statistic}_e2el"],
            # By the GPUs of tensor parallelism: num_decode_gpu counts those of experts a second time.
            throughput=None if throughput is None or statistic == "median" else throughput * tensor,
        ),
        statistic=statistic,
        in_flight=float(row["conc"]),
        fitted=fitted_on(engine, version, model.name, gpu),
    )
