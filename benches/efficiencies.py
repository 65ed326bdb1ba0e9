"""Fit the catalog's efficiencies to measured kernels: what the roofline's kernels reach, by GPU and type.

    python benches/efficiencies.py [--gpu h200 ...] [--engine vllm]

The kernels are AISimulate's tables, where that wheel was imported (``paceline profiles import``): matrix
multiplications, attention, and experts, of the newest version of each engine that has all three. Half of the
shapes are fitted, every engine with the same weight; the error is of the other half. No measured run is read.

A multiplication, or attention, is ``kernel_s + max(bytes / memory, FLOPs / matmul)``. Experts are
``kernel_s + bytes / memory + FLOPs / matmul``: each has few tokens, and the longer of the two fits worse
(``--longer`` prints that). For each kind it prints the three numbers, the median and the ninetieth percentile
of the error's size with the median error, and the numbers of each engine alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from paceline._least_squares import Floats, fit_bounded
from paceline.cost.matrices import expert_numbers
from paceline.cost.mixture import covered_experts, slowest_rank
from paceline.errors import ConfigError
from paceline.hardware import Gpu
from paceline.kernels.aisimulate import Database
from paceline.kernels.assembled.rank import pick_kernel
from paceline.kernels.store import Operators, locate
from paceline.model import Experts, Model
from paceline.model.dtypes import WEIGHT_BYTES

SYSTEMS = {
    "a100-80gb": "a100_sxm",
    "h100-sxm": "h100_sxm",
    "h200": "h200_sxm",
    "b200": "b200_sxm",
    "gb200": "gb200",
    "b300": "b300_sxm",
    "gb300": "gb300",
}
ENGINES = ("sglang", "trtllm", "vllm")
#: What the tables call a type of weights, the one that engines choose first.
MATRICES = {"bfloat16": ("bfloat16",), "fp8": ("fp8_block", "fp8"), "nvfp4": ("nvfp4",)}
EXPERTS = {
    "bfloat16": ("bfloat16",),
    "fp8": ("fp8_block", "fp8"),
    "mxfp4": ("w4a8_mxfp4_mxfp8", "w4a16_mxfp4"),
    "nvfp4": ("nvfp4",),
}
ROUTING = "power_law_1.01"
START = {"kernel_s": 1e-5, "memory": 0.7, "matmul": 0.5}
#: Rows of one engine that take part in a fit, at most.
ROWS = 4000
#: Seconds at the full bandwidth, seconds at the full arithmetic, seconds measured: a row a kernel.
Work = Floats


def main() -> None:
    """Print the fits of each GPU."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", nargs="*", default=list(SYSTEMS))
    parser.add_argument("--engine", nargs="*", default=list(ENGINES))
    parser.add_argument("--fixed", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--longer", action="store_true")
    options = parser.parse_args()
    fixed = {name: float(value) for name, _, value in (of.partition("=") for of in options.fixed)}
    where = locate("aisimulate/h100_sxm/vllm/0.24.0")
    if not isinstance(where, Operators):
        raise ConfigError("the operators of AISimulate must be imported: paceline profiles import")
    database = Database(where.database)
    for name in options.gpu:
        gpu, system = Gpu.load(name), SYSTEMS[name]
        engines = [
            one for one in options.engine if any(found[1] == one for found in database.engines(system))
        ]
        for kind, of, add in (
            *((f"matrices {dtype}", matrices(database, gpu, dtype), False) for dtype in MATRICES),
            ("attention of decodes", decodes(database, gpu), False),
            ("attention of prompts", prompts(database, gpu), False),
            *((f"experts {dtype}", experts(database, gpu, dtype), not options.longer) for dtype in EXPERTS),
        ):
            works = {
                engine: work for engine in engines if (work := of(engine)) is not None and len(work) > 20
            }
            if works:
                report(f"{name} {kind}", works, add=add, fixed=fixed)


def report(what: str, works: Mapping[str, Work], *, add: bool, fixed: Mapping[str, float]) -> None:
    """Fit half of the kernels of all engines together, and of each alone, and print both."""
    halves = {engine: (work[::2], work[1::2]) for engine, work in works.items()}
    found = fit([first for first, _ in halves.values()], add=add, fixed=fixed)
    rest = [np.abs(second_errors(found, second, add=add)) for _, second in halves.values()]
    signed = np.concatenate([second_errors(found, second, add=add) for _, second in halves.values()])
    sizes = np.concatenate(rest)
    print(
        f"{what}: {written(found)}; "
        f"error {100 * np.median(sizes):.0f}%, {100 * np.quantile(sizes, 0.9):.0f}% "
        f"({100 * np.median(signed):+.0f}%) of {len(sizes):,}; "
        + "; ".join(
            f"{one} {written(fit([first], add=add, fixed=fixed))}" for one, (first, _) in halves.items()
        ),
        flush=True,
    )


def written(found: Mapping[str, float]) -> str:
    """Return the three numbers of a fit."""
    return f"{1e6 * found['kernel_s']:.1f} us, memory {found['memory']:.3f}, matmul {found['matmul']:.3f}"


def seconds(of: Mapping[str, float], work: Work, *, add: bool) -> Floats:
    """Return what kernels take."""
    memory, matmul = work[:, 0] / of["memory"], work[:, 1] / of["matmul"]
    return np.asarray(of["kernel_s"] + (memory + matmul if add else np.maximum(memory, matmul)))


def second_errors(of: Mapping[str, float], work: Work, *, add: bool) -> Floats:
    """Return relative errors of kernels."""
    return np.asarray(seconds(of, work, add=add) / work[:, 2] - 1)


def fit(works: Iterable[Work], *, add: bool, fixed: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers by which errors are least, as logarithms, with large ones counting less."""
    rows = [work[np.linspace(0, len(work) - 1, min(len(work), ROWS)).astype(int)] for work in works]
    names = [name for name in START if name not in fixed]

    def residuals(logs: Floats) -> Floats:
        of = {**fixed, **dict(zip(names, np.exp(logs).tolist(), strict=True))}
        parts = []
        for work in rows:
            error = np.log(seconds(of, work, add=add) / work[:, 2])
            # Square roots of a soft absolute value: an engine's slow kernel at one size does not decide.
            soft = 0.2 * np.sqrt(2 * (np.sqrt(1 + (error / 0.2) ** 2) - 1))
            parts.append(np.sign(error) * soft / np.sqrt(len(work)))
        return np.concatenate(parts)

    start = np.log([START[name] for name in names])
    high = np.log([1e-3 if name == "kernel_s" else 1.0 for name in names])
    found = fit_bounded(
        residuals, start, start - 7, high, differences=(1e-4,), evaluations=200, tolerance=1e-10
    )
    return {**fixed, **dict(zip(names, np.exp(found).tolist(), strict=True))}


def newest(database: Database, gpu: Gpu, engine: str, file: str) -> pl.DataFrame | None:
    """Return an engine's table on a GPU, of the newest version with whole profiles; None without."""
    system = SYSTEMS[gpu.name]
    try:
        version = database.newest(system, engine)
        return database.table(database.find(system, file, backend=engine, version=version))
    except ConfigError:
        return None


def work_of(moved: Floats, flops: Floats, peak: float, gpu: Gpu, milliseconds: Floats) -> Work:
    """Return rows of work, in an order that mixes sizes and is always the same."""
    rows = np.stack([moved / gpu.bandwidth_bytes_per_s, flops / peak, 1e-3 * milliseconds], axis=1)
    return np.asarray(np.random.default_rng(0).permutation(rows[milliseconds > 0]))


def peak_of(gpu: Gpu, name: str) -> float:
    """Return the arithmetic of kernels with weights of a type."""
    narrow = gpu.fp8_flop_per_s if name.startswith("fp8") else None
    return (gpu.fp4_flop_per_s if name == "nvfp4" else narrow) or gpu.bf16_flop_per_s


def matrices(database: Database, gpu: Gpu, dtype: str) -> Callable[[str], Work | None]:
    """Return the multiplications of an engine in a type of weights, of widths from 128 to 65,536."""

    def of(engine: str) -> Work | None:
        table = newest(database, gpu, engine, "gemm_perf")
        name = first_of(table, "gemm_dtype", MATRICES[dtype])
        if table is None or name is None:
            return None
        wide = pl.col("n").is_between(128, 2**16) & pl.col("k").is_between(128, 2**16)
        rows = table.filter((pl.col("gemm_dtype") == name) & wide)
        m, n, k, taken = (rows[column].to_numpy().astype(float) for column in ("m", "n", "k", "latency"))
        moved = n * k * WEIGHT_BYTES[dtype] + 2 * m * (n + k)
        return work_of(moved, 2 * m * n * k, peak_of(gpu, name), gpu, taken)

    return of


def decodes(database: Database, gpu: Gpu) -> Callable[[str], Work | None]:
    """Return grouped attention of decodes over whole contexts."""

    def of(engine: str) -> Work | None:
        found = attention(database, gpu, engine, "generation_attention_perf")
        if found is None:
            return None
        query, key, batch, tokens, past, taken = found
        context = tokens + past
        moved = 2 * batch * (2 * query + 4 * key) + 2 * batch * context * 2 * key
        return work_of(moved, 4 * batch * context * query, gpu.bf16_flop_per_s, gpu, taken)

    return of


def prompts(database: Database, gpu: Gpu) -> Callable[[str], Work | None]:
    """Return grouped attention of one prompt."""

    def of(engine: str) -> Work | None:
        found = attention(database, gpu, engine, "context_attention_perf")
        if found is None:
            return None
        query, key, batch, tokens, past, taken = found
        moved = 2 * batch * tokens * (2 * query + 4 * key) + 2 * batch * (tokens + past) * 2 * key
        flops = 4 * batch * (tokens * (tokens + 1) / 2 + tokens * past) * query
        return work_of(moved, flops, gpu.bf16_flop_per_s, gpu, taken)

    return of


def attention(database: Database, gpu: Gpu, engine: str, file: str) -> list[Floats] | None:
    """Return widths of queries and of keys, and the sizes of 16-bit attention without windows."""
    table = newest(database, gpu, engine, file)
    if table is None:
        return None
    if "window_size" in table.columns:
        table = table.filter(pl.col("window_size") == 0)
    plain = (pl.col("kv_cache_dtype") == "bfloat16") & (pl.col("attn_dtype") == "bfloat16")
    shape = ("num_heads", "num_key_value_heads", "head_dim")
    rows = pl.concat(pick_kernel(part) for part in table.filter(plain).partition_by(*shape))
    columns = (*shape, "batch_size", "isl", "step", "latency")
    heads, shared, width, *rest = (rows[column].to_numpy().astype(float) for column in columns)
    return [heads * width, shared * width, *rest]


def experts(database: Database, gpu: Gpu, dtype: str) -> Callable[[str], Work | None]:
    """Return the routed experts of one rank, by the tokens of all."""

    def of(engine: str) -> Work | None:
        table = newest(database, gpu, engine, "moe_perf")
        name = first_of(table, "moe_dtype", EXPERTS[dtype])
        if table is None or name is None:
            return None
        shape = ("hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
        rows = table.filter((pl.col("moe_dtype") == name) & (pl.col("distribution") == ROUTING))
        if rows.is_empty():
            return None
        rows = pl.concat(pick_kernel(part) for part in rows.partition_by(*shape))
        found = []
        for *sizes, tokens, taken in rows.select(*shape, "num_tokens", "latency").iter_rows():
            sized = of_rank(sizes, tokens, dtype)
            if sized is not None:
                found.append((*sized, taken))
        moved, flops, taken = np.array(found).T
        return work_of(moved, flops, peak_of(gpu, dtype), gpu, taken)

    return of


def of_rank(sizes: list[int], tokens: int, dtype: str) -> tuple[float, float] | None:
    """Return bytes and FLOPs of a rank's experts; None where each token takes all."""
    hidden, width, each, count, split, dealt = sizes
    if each >= count or width % split:
        return None
    of = Experts(count=count, per_token=each, intermediate_size=width)
    covered = covered_experts(of, None)
    hit = covered[min(tokens, len(covered)) - 1]
    read = slowest_rank(hit, count, dealt) if dealt > 1 else hit
    weights = 3 * hidden * width
    ranks = split * dealt
    model = replace(Model.load("mixtral-8x7b"), hidden_size=hidden)
    numbers = expert_numbers(model, of, ranks=ranks, data_ranks=1, whole=dealt > 1)
    moved = read * weights / split * WEIGHT_BYTES[dtype] + 2 * tokens * numbers
    return moved, 2 * each * weights * tokens / ranks


def first_of(table: pl.DataFrame | None, column: str, names: Iterable[str]) -> str | None:
    """Return the first of some names that a column has."""
    there = set() if table is None else set(table[column].unique().to_list())
    return next((name for name in names if name in there), None)


if __name__ == "__main__":
    main()
