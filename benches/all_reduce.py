"""The roofline's all-reduce against measured curves, by size.

    python benches/all_reduce.py [--shared FOLDER] [--profile aisimulate/h100_sxm/vllm/0.24.0]

The curves come from other projects' files, none of which is kept here: Vidur's all-reduces of a DGX H100,
nccl-tests and all_reduce_bench of stas00/ml-engineering (8 x A100, 8 x H200), and AISimulate's tables of
vLLM's own kernel and of NCCL, both in a CUDA graph, where that wheel was imported (``paceline profiles
import``). Curves of NCCL are compared with NCCL's ways alone.

For each curve it prints, by size, the microseconds measured, the roofline's, the relative error and the
algorithm chosen. Before each curve of vLLM's kernel it prints the two numbers that the catalog takes from
it: the time of the smallest message, and the share of the link at which a rank reads.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from paceline.cost.all_reduce import all_reduce_ways
from paceline.errors import ConfigError
from paceline.hardware import Gpu
from paceline.kernels.aisimulate import Database
from paceline.kernels.collectives import read_all_reduce
from paceline.kernels.store import Operators, locate

KIB = 1024
SIZES = (8 * KIB, 32 * KIB, 128 * KIB, 512 * KIB, 2**21, 2**23, 2**25, 2**26)
#: Catalog's name of AISimulate's system, and the largest size at which ranks of 2, 4 and 8 read one-shot.
SYSTEMS = {"h100_sxm": "h100-sxm", "a100_sxm": "a100-80gb", "h200_sxm": "h200", "b200_sxm": "b200"}
ONE_SHOT = {2: 2**22, 4: 2**17, 8: 2**16}
ONE_SHOT_B200 = {**ONE_SHOT, 2: 2**20}  # above that, NCCL's kernel


def main() -> None:
    """Print all curves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shared", type=Path, default=Path(__file__).resolve().parents[2] / "shared")
    parser.add_argument("--profile", default="aisimulate/h100_sxm/vllm/0.24.0")
    options = parser.parse_args()
    measured = options.shared / "measured"
    for name, gpu, ranks, curve in (
        *vidur(measured / "vidur"),
        *nccl_tests(measured / "links" / "allreduce.csv"),
    ):
        report(name, gpu, ranks, curve, nccl=True)
    try:
        found = locate(options.profile)
    except ConfigError as error:
        print(f"no tables of AISimulate: {error}")
        return
    if isinstance(found, Operators):
        aisimulate(Database(found.database))


def vidur(folder: Path) -> Iterator[tuple[str, str, int, Mapping[int, float]]]:
    """Yield Vidur's curves."""
    for file in sorted(folder.glob("*.all_reduce.csv*")):
        for ranks in pl.read_csv(file)["num_workers"].unique().sort().to_list():
            curve = read_all_reduce(file, ranks=ranks)
            yield file.name.split(".")[0], "h100-sxm", ranks, {size: curve(size) for size in SIZES}


def nccl_tests(file: Path) -> Iterator[tuple[str, str, int, Mapping[int, float]]]:
    """Yield the curves of stas00/ml-engineering: bytes over the bandwidth of the algorithm."""
    if not file.is_file():
        return
    frame = pl.read_csv(file).filter(column="algbw")
    for node, gpu in (("H200x8", "h200"), ("A100x8 NVLink3 (nccl-tests)", "a100-80gb")):
        rows = frame.filter(node=node).select("payload_bytes", "value").iter_rows()
        yield node, gpu, 8, {size: size / (1e9 * value) for size, value in rows if size in SIZES}


def aisimulate(database: Database) -> None:
    """Print NCCL's curves and those of vLLM's kernel, the newest of each GPU."""
    for system, gpu in SYSTEMS.items():
        of = [r for r in database.releases if r.gpu == system]
        kernel = [r for r in of if (r.file, r.backend) == ("custom_allreduce_perf", "vllm")]
        kernel = [r for r in kernel if r.version in ("0.24.0", "0.14.0")][-1:]
        nccl = [r for r in of if (r.file, r.backend) == ("nccl_perf", "nccl") and r.version != "2.30.7"][-1:]
        for release in nccl:
            table = database.table(release).filter(op_name="all_reduce", nccl_dtype="half")
            for ranks, curve in curves(table):
                report(f"NCCL {release.version} in a graph, {system}", gpu, ranks, curve, nccl=True)
        for release in kernel:
            table = database.table(release).filter(kernel_source="vLLM_custom_graph")
            for ranks, curve in curves(table):
                shares(gpu, ranks, curve)
                report(f"vLLM {release.version} in a graph, {system}", gpu, ranks, curve, nccl=False)


def curves(table: pl.DataFrame) -> Iterator[tuple[int, Mapping[int, float]]]:
    """Yield ranks and seconds over bytes, from numbers of two bytes and milliseconds."""
    for ranks in table["num_gpus"].unique().sort().to_list():
        rows = table.filter(num_gpus=ranks).group_by("message_size").agg(pl.col("latency").median())
        yield ranks, {2 * size: 1e-3 * ms for size, ms in rows.sort("message_size").iter_rows()}


def shares(gpu: str, ranks: int, curve: Mapping[int, float]) -> None:
    """Print the catalog's two numbers as a curve of vLLM's kernel gives them."""
    small = pl.Series([seconds for size, seconds in curve.items() if size <= 8 * KIB]).median()
    assert isinstance(small, float), "Invariant: every curve has small messages"
    largest = (ONE_SHOT_B200 if gpu == "b200" else ONE_SHOT)[ranks]
    share = (ranks - 1) * largest / (curve[largest] - small) / Gpu.load(gpu).link_bytes_per_s
    print(f"\n{gpu}, {ranks} GPUs: smallest {1e6 * small:.1f} us, one-shot reads {share:.3f} of the link")


def report(name: str, gpu: str, ranks: int, curve: Mapping[int, float], *, nccl: bool) -> None:
    """Print a measured curve beside the roofline's."""
    device = Gpu.load(gpu)
    assert device.efficiency is not None, "Invariant: these are in the catalog with efficiencies"
    ways = all_reduce_ways(
        device.efficiency,
        ranks=ranks,
        link=device.link,
        link_bytes_per_s=device.link_bytes_per_s,
        kernel=not nccl,
    )
    print(f"\n{name}, {ranks} GPUs\n   KiB   measured us   ours us     off  by")
    for size in SIZES:
        if size not in curve:
            continue
        best = min(ways, key=lambda way: way.latency_s + size * way.s_per_byte)
        ours = best.latency_s + size * best.s_per_byte
        off = ours / curve[size] - 1
        print(f"{size // KIB:6,} {1e6 * curve[size]:13.1f} {1e6 * ours:9.1f} {off:+7.0%}  {best.name}")


if __name__ == "__main__":
    main()
