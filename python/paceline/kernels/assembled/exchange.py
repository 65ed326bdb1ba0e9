"""What the ranks of a model take to exchange activations, as the database measured it."""

from __future__ import annotations

import polars as pl

from paceline.errors import ConfigError
from paceline.kernels.aisimulate import Release
from paceline.kernels.assembled.rank import MS, Rank
from paceline.kernels.curve import Curve

__all__ = ["collectives"]

#: Bytes of a number: sizes in the tables are numbers, not bytes. NCCL's all-gather of 2**28 "half" takes what
#: 2**29 "int8" take (H100 SXM, 8 GPUs: 1.400 ms both).
_BYTES = 2


def collectives(rank: Rank) -> dict[str, Curve]:
    """Return seconds over bytes of the whole message, by collective; nothing for one rank.

    All-reduces within a rank's group are the backend's own kernel, in a CUDA graph where that was measured,
    or NCCL's for more GPUs than that one was measured with; what crosses data-parallel groups, and gathers
    logits, is NCCL's. Groups larger than what was measured are refused, not guessed.
    """
    found: dict[str, Curve] = {}
    if rank.ranks > 1:
        found["all_reduce"] = _all_reduce(rank)
        found["all_gather"] = _nccl(rank, "all_gather", rank.ranks)
    if rank.data_parallel > 1:
        found["dispatch"] = _nccl(rank, "all_gather", rank.data_parallel)
        found["combine"] = _nccl(rank, "reduce_scatter", rank.data_parallel)
    return found


def _all_reduce(rank: Rank) -> Curve:
    table = rank.table("custom_allreduce_perf")
    if rank.ranks not in table["num_gpus"]:
        rank.facts["custom_allreduce_perf_version"] = "none of as many GPUs: NCCL's"
        return _nccl(rank, "all_reduce", rank.ranks)
    graph = table.filter(pl.col("kernel_source").str.ends_with("_graph"))
    return _curve(
        graph if len(graph) else table, rank.ranks, f"custom_allreduce_perf of {rank.backend} on {rank.gpu}"
    )


def _nccl(rank: Rank, operation: str, ranks: int) -> Curve:
    wanted = rank.system.get("misc.nccl_version")
    there = [
        r for r in rank.database.releases if (r.gpu, r.file, r.backend) == (rank.gpu, "nccl_perf", "nccl")
    ]
    release: Release | None = next((r for r in there if r.version == wanted), there[-1] if there else None)
    if release is None:
        raise ConfigError(f"{rank.database.where} must have nccl_perf on {rank.gpu}, had none")
    rank.facts["nccl_version"] = release.version
    table = rank.database.table(release)
    rows = table.filter((pl.col("op_name") == operation) & (pl.col("nccl_dtype") == "half"))
    return _curve(rows, ranks, f"{operation} of nccl_perf on {rank.gpu}")


def _curve(table: pl.DataFrame, ranks: int, what: str) -> Curve:
    rows = table.filter(pl.col("num_gpus") == ranks)
    if rows.is_empty():
        known = sorted(table["num_gpus"].unique().to_list())
        raise ConfigError(f"{what} must have {ranks} GPUs, had {known}")
    return Curve.of(
        (_BYTES * size, MS * ms) for size, ms in rows.select("message_size", "latency").iter_rows()
    )
