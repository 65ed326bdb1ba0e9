"""Points of InferenceX (several repositories, GPL-3.0 and Apache-2.0; column ``src``): closed loops, in s."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from paceline.validation.points.names import engine_version, gpu_of, model_of, trtllm_version
from paceline.validation.points.point import Engine, Point, Server, Split
from paceline.validation.points.readers.recipes import of_recipe
from paceline.validation.points.readers.scripts import (
    Run,
    as_computed,
    fitted_on,
    flags_of,
    settled,
    version_of,
)
from paceline.validation.points.readers.splits import by_recipe, split_of
from paceline.validation.points.readers.tables import Found, Row, each_row, known, table
from paceline.validation.points.refusals import (
    APART,
    DRAFTS,
    NotModelled,
)
from paceline.validation.points.workloads import Closed

__all__ = ["COLUMNS", "NETWORKS", "read"]

COLUMNS = ("framework", "conc", "median_tpot", "median_ttft", "decode_tp", "decode_ep", "is_multinode")
_ENGINES: dict[str, Engine] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "trt": "trtllm",
    "dynamo-sglang": "sglang",
    "dynamo-trt": "trtllm",
    "dynamo-trtllm": "trtllm",
}
#: Between instances that prefill and that decode, a port a GPU. The data do not say: it is taken that nodes
#: of eight GPUs have as many adapters of 400 Gb/s, and racks of GB200 and GB300 NVLink.
NETWORKS = {
    "h200": "infiniband-ndr",
    "b200": "infiniband-ndr",
    "b300": "infiniband-ndr",
    "gb200": "nvlink-gb200",
    "gb300": "nvlink-gb200",
}


#: Of SGLang on B200 from November 2025 to January 2026 a few of the first requests wait 70 s, whatever the
#: load: the ninety-ninth percentile of TTFT is then above this, and the median below a tenth of it.
_STALL_S = 60.0


def read(file: Path, name: str) -> Found:
    """Yield the points of a file: means, or medians where it has no means or they contain a stall."""
    yield from each_row(name, table(file), _point)


def _point(place: str, row: Row) -> Point:
    if row["src"].startswith("together"):
        raise NotModelled("doubtful: a set of low quality")
    if row["spec_method"] != "none":
        raise NotModelled(DRAFTS)
    model, precision = model_of(row["model"], row["precision"])
    gpu = gpu_of(row["hardware"])
    prefill, decode = _instances(row)
    network = NETWORKS.get(gpu) if prefill else None
    if prefill and network is None:
        raise NotModelled(APART)
    split = _split(row, "decode")
    gpus, dealt = split.tensor_parallel * split.data_parallel, split.expert_parallel
    apart = _split(row, "prefill") if prefill else split
    statistic: Literal["mean", "median"] = "median" if row["mean_tpot"] is None or _stalls(row) else "mean"
    throughput = row["output_tput_per_gpu"]
    engine = _ENGINES[row["framework"]]
    version = engine_version(row["image"])
    version = trtllm_version(version) if engine == "trtllm" else version
    load = (row["isl"], row["osl"], row["conc"])
    date, ranks = str(row.get("date") or ""), split.data_parallel
    run = settled(Run(engine, model, gpu, gpus, dealt, *load, version, date, not prefill, ranks))
    flags = flags_of(run)
    flags = of_recipe(flags, run, (prefill, decode), apart) if prefill else flags
    return Point(
        id=place,
        server=Server(
            engine=engine,
            version=version_of(run),
            model=as_computed(run),
            gpu=gpu,
            tensor_parallel=gpus // run.ranks,
            data_parallel=run.ranks,
            expert_parallel=run.dealt,
            instances=prefill + decode,
            prefill=prefill,
            prefill_split=None if apart == split else apart,
            network=network,
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
            throughput=None if prefill or throughput is None or statistic == "median" else throughput * gpus,
        ),
        statistic=statistic,
        in_flight=row["conc"] / decode / run.ranks,
        fitted="" if prefill else fitted_on(engine, version, model.name, gpu),
        mean_tpot=row["mean_tpot"],
    )


def _split(row: Row, side: str) -> Split:
    """Return how instances that prefill or that decode share the model.

    Ranks of attention are as many as ``tp``, or of one GPU each: then the instances' GPUs say how many.
    """
    gpus, dealt, ranks = row[f"{side}_tp"], row[f"{side}_ep"] or 1, bool(row[f"{side}_dp_attention"])
    if ranks and gpus == 1 and row["disagg"]:
        gpus = row[f"num_{side}_gpu"] // row[f"{side}_num_workers"]
        ranks = not by_recipe(gpus, dealt)
    return split_of(gpus, dealt, ranks=ranks)


def _stalls(row: Row) -> bool:
    """Whether a few requests waited for a minute, for which no load is the reason."""
    late, median = row.get("p99_ttft") or 0.0, row["median_ttft"] or 0.0
    return late > _STALL_S and median < 0.1 * late


def _instances(row: Row) -> tuple[int, int]:
    """Return the instances that prefill and those that decode; one that does both counts as the latter.

    Raises
    ------
    NotModelled
        If the data do not list them.
    """
    if not (row["disagg"] or row["is_multinode"]):
        return 0, 1
    if not row["prefill_num_workers"] or not row["decode_num_workers"]:
        raise NotModelled(APART)
    return row["prefill_num_workers"], row["decode_num_workers"]
