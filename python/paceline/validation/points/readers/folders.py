"""Folders of one measured run with kernels of the same machine, as ``paceline validate DIR`` takes them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from paceline.trace import Trace
from paceline.validation.comparison import METRICS
from paceline.validation.folder import MeasuredRun, read_run
from paceline.validation.peer import read_peer
from paceline.validation.points.point import Point, Refused, Server
from paceline.validation.points.readers.tables import Found
from paceline.validation.points.refusals import ATTENTION_PARALLEL, NotModelled
from paceline.validation.points.workloads import Sent
from paceline.validation.prediction import cost_of
from paceline.validation.resolving import find_gpu, find_model, usable_blocks

__all__ = ["FILES", "read"]

FILES = ("requests.parquet", "engine.json")


def read(file: Path, name: str) -> Found:
    """Yield the run of a folder, of which ``file`` is the engine's settings."""
    run = read_run(file.parent)
    place = f"{name}#{run.name}"
    try:
        yield _point(run, place, file)
    except NotModelled as reason:
        yield Refused(id=place, reason=str(reason))


def _point(run: MeasuredRun, place: str, file: Path) -> Point:
    if run.data_parallel > 1:
        raise NotModelled(ATTENTION_PARALLEL)
    facts = cost_of(run).read().facts
    means = {name: of["mean"] for name, of in run.measured().statistics().items()}
    arrival = run.requests["arrival_s"]
    shared = run.prefix_caching and "prefix_block_ids" in run.requests.columns
    trace = Trace.from_columns(
        arrival=arrival,
        prompt_tokens=run.requests["prompt_tokens"],
        output_tokens=run.requests["output_tokens"],
        name=run.name,
        **({"prefix": run.requests["prefix_block_ids"]} if shared else {}),
        prefix_block_tokens=run.block_tokens if shared else None,
    )
    span = float(run.measured().last_token.max() - run.measured().arrival.min())
    peer = run.folder / "peer-llmservingsim.txt"
    told = {name: of["mean"] for name, of in read_peer(peer).items()} if peer.is_file() else {}
    return Point(
        id=place,
        server=Server(
            engine="vllm",
            version=_version(file),
            model=find_model(run.model, run.folder),
            gpu=find_gpu(facts.get("gpu", "")).name,
            tensor_parallel=run.tensor_parallel,
            expert_parallel=run.expert_parallel,
            max_num_seqs=run.max_num_seqs,
            max_num_batched_tokens=run.max_num_batched_tokens,
            num_blocks=usable_blocks(run, facts.get("gpu", "")),
            memory=run.gpu_memory_utilization,
            prefix_caching=shared,
            profile=str(run.profile),
        ),
        precision="bf16",
        workload=Sent(trace),
        measured={**means, "throughput": float(run.requests["output_tokens"].sum()) / span},
        in_flight=len(trace) * means["e2e"] / span,
        peers={"llmservingsim": {name: told[name] for name in METRICS if name in told}} if told else {},
        fitted="the step's overhead, and how tables are read",
    )


def _version(file: Path) -> str:
    """Return the engine's version in its settings; empty if they do not say."""
    version = msgspec.json.decode(file.read_bytes()).get("vllm_version")
    return version if isinstance(version, str) else ""
