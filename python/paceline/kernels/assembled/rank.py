"""One rank of a model, and the operators that its layers are."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import polars as pl

from paceline.errors import ConfigError
from paceline.kernels.aisimulate import Database
from paceline.kernels.curve import Curve
from paceline.model import Model

__all__ = ["MS", "Backend", "Rank", "pick_kernel"]

Backend = Literal["vllm", "sglang", "trtllm"]

MS = 1e-3
# Of a multiplication in 32 bits: 13.6 us with weights of 6,144 x 128 and two rows (cuBLAS, in a table of
# vllm-project/vllm pull request 44343), and one of 3,072 x 256 makes steps of 2 to 16 tokens 8 us longer than
# one in 16 bits (pull request 41332, B200).
_LEAST_32_BITS_S = 13.6e-6
# Of fp8 weights: in blocks of 128 by 128 as DeepSeek's are, else a scale for the whole matrix.
_FP8 = ("fp8_block", "fp8")


@dataclass(slots=False, kw_only=True, eq=False)
class Rank:
    """A query of the database: the kernels of which GPU and engine, and of which share of a model.

    Parameters
    ----------
    database, gpu, backend, version
        As in :func:`~paceline.kernels.assembled.assemble`, the version resolved.
    model
        The model.
    ranks
        Ranks of tensor parallelism.
    data_parallel, expert_parallel
        How experts are shared.
    kv_dtype
        Type of the KV cache; ``auto``: the model's.
    experts_of
        An engine and its version, ``sglang/0.5.14``, whose experts are taken; empty: the backend's.
    matrix_flops
        FLOP/s that multiplications of 8-bit weights reach at most, where the server's kernels are not those
        of the table; 0: they are.
    facts
        What was taken from where, filled in as tables are read.
    """

    database: Database
    model: Model
    gpu: str
    backend: str
    version: str
    ranks: int
    data_parallel: int
    expert_parallel: bool
    kv_dtype: str = "auto"
    experts_of: str = ""
    matrix_flops: float = 0.0
    facts: dict[str, str] = field(default_factory=dict)

    def table(self, file: str) -> pl.DataFrame:
        """Return a table of the backend, and note its version."""
        return self._released(file, self.backend, self.version)

    def expert_table(self) -> pl.DataFrame:
        """Return the table of experts, and note whose it is."""
        if not self.experts_of:
            return self.table("moe_perf")
        backend, _, version = self.experts_of.partition("/")
        self.facts["moe_perf_backend"] = backend
        return self._released("moe_perf", backend, version or None)

    def _released(self, file: str, backend: str, version: str | None) -> pl.DataFrame:
        release = self.database.find(self.gpu, file, backend=backend, version=version)
        self.facts[f"{file}_version"] = release.version
        return self.database.table(release)

    def has(self, file: str) -> bool:
        """Whether the backend has a table."""
        return any(
            (r.gpu, r.backend, r.file) == (self.gpu, self.backend, file) for r in self.database.releases
        )

    @property
    def cached(self) -> str:
        """The type of keys and values in the cache, as the database calls it."""
        return self.model.dtype if self.kv_dtype == "auto" else self.kv_dtype

    @cached_property
    def system(self) -> dict[str, str]:
        """What the database says of the GPU."""
        return self.database.system(self.gpu)

    def _figure(self, name: str, default: str | None) -> float:
        """Return a number that the database says of the GPU."""
        text = self.system.get(name, default)
        try:
            number = float(text or "")
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or number < 0 or (number == 0 and default != "0"):
            raise ConfigError(f"{name} of {self.gpu}.yaml must be a finite number above 0, was {text!r}")
        return number

    @cached_property
    def products(self) -> pl.DataFrame:
        """Matrix multiplications of every type."""
        return self.table("gemm_perf")

    def traffic(self, numbers: float) -> Curve:
        """Return what it takes to move some 16-bit numbers for each token, past the caches."""
        scale = self._figure("gpu.mem_bw_empirical_scaling_factor", "1")
        bandwidth = self._figure("gpu.mem_bw", None) * scale
        latency = self._figure("gpu.mem_empirical_constant_latency", "0")
        size = numbers * self.model.kv_dtype_bytes(self.model.dtype)
        return Curve((1, 8192), (latency + size / bandwidth, latency + 8192 * size / bandwidth))

    def once(self) -> dict[str, Curve]:
        """Return norms, and what runs once a step."""
        hidden = self.model.hidden_size
        touch = {"layernorm": 4 * hidden, "embedding": 2 * hidden, "final_layernorm": 4 * hidden}
        return {layer: self.traffic(numbers) for layer, numbers in touch.items()}

    def gated(self, up: str, act: str, down: str, width: int) -> dict[str, Curve]:
        """Return a gated MLP of this width over all ranks."""
        hidden, share = self.model.hidden_size, width // self.ranks
        return {
            up: self.multiplication(hidden, 2 * share),
            act: self.traffic(3 * share),
            down: self.multiplication(share, hidden),
        }

    def multiplication(self, inputs: int, outputs: int, dtype: str | None = None) -> Curve:
        """Return a matrix multiplication over its rows, in the type of weights of MLPs by default.

        Between measured widths lines are drawn, first over the outputs and then over the inputs.
        """
        found = self._interpolated(inputs, outputs, dtype)
        if not self.matrix_flops or (dtype or self.model.matrix_dtype) != "fp8":
            return found
        row = 2.0 * inputs * outputs / self.matrix_flops
        return Curve(
            found.at, tuple(max(each, n * row) for n, each in zip(found.at, found.seconds, strict=True))
        )

    def _interpolated(self, inputs: int, outputs: int, dtype: str | None) -> Curve:
        measured = self._measured(self._type(dtype))
        by_inputs: dict[int, list[int]] = {}
        for n, k in measured:
            by_inputs.setdefault(k, []).append(n)
        lines = {}
        for k in _around(sorted(by_inputs), inputs):
            near = _around(sorted(by_inputs[k]), outputs)
            lines[k] = _between(near, outputs, {n: Curve.of(measured[n, k]) for n in near})
        return _between(sorted(lines), inputs, lines)

    def in_32_bits(self, inputs: int, outputs: int, dtype: str) -> Curve:
        """Return a multiplication in 32 bits, of which the database has none, from that in a type of 16.

        It takes no less than that, nor than was measured of few rows, nor than its arithmetic outside tensor
        cores, at the share of the peak that the median 16-bit multiplication of the most rows has of its own.
        Where the database does not have the peak, it is not counted.
        """
        narrow = self.multiplication(inputs, outputs, dtype)
        if "gpu.fp32_flops" not in self.system:
            return narrow
        rows = self.products.filter(pl.col("gemm_dtype") == self._type(dtype))
        most = rows.filter(pl.col("m") == pl.col("m").max())
        flops = 2.0 * pl.col("m") * pl.col("n") * pl.col("k")
        usual = float(most.select((flops / pl.col("latency")).median()).item()) / MS
        peaks = self._figure("gpu.fp32_flops", None), self._figure("gpu.bfloat16_tc_flops", None)
        row = 2.0 * inputs * outputs / (usual * peaks[0] / peaks[1])
        seconds = (
            max(each, _LEAST_32_BITS_S, n * row) for n, each in zip(narrow.at, narrow.seconds, strict=True)
        )
        return Curve(narrow.at, tuple(seconds))

    def _type(self, dtype: str | None) -> str:
        """Return what the database calls a type of weights, the nearest that it has of fp8."""
        wanted = dtype or self.model.matrix_dtype
        there = self.products["gemm_dtype"].unique().to_list()
        names = _FP8 if wanted == "fp8" else (wanted,)
        found = next((name for name in names if name in there), None)
        if found is None:
            raise ConfigError(
                f"{self.database.where} must have {wanted} gemm of {self.backend} on {self.gpu}, "
                f"had {', '.join(sorted(there))}"
            )
        self.facts["gemm_dtype"] = found
        return found

    def _measured(self, dtype: str) -> dict[tuple[int, int], list[tuple[int, float]]]:
        """Return rows and seconds by width; few widths are asked for, so curves are made of those."""
        cache = self.__dict__.setdefault("_curves", {})
        if dtype not in cache:
            rows = self.products.filter(pl.col("gemm_dtype") == dtype)
            groups = rows.group_by("n", "k").agg("m", "latency").iter_rows()
            cache[dtype] = {
                (n, k): [(m, MS * ms) for m, ms in zip(rows_m, times, strict=True)]
                for n, k, rows_m, times in groups
            }
        found: dict[tuple[int, int], list[tuple[int, float]]] = cache[dtype]
        return found


def pick_kernel(rows: pl.DataFrame) -> pl.DataFrame:
    """Keep one kernel at each place: where several were measured the one with more places in all.

    Backends change kernels with the size of a batch, so no single one has every place.
    """
    if rows.is_empty() or "kernel_source" not in rows.columns:
        return rows
    place = [name for name in ("batch_size", "isl", "step", "num_tokens") if name in rows.columns]
    ranked = rows.with_columns(places=pl.len().over("kernel_source"))
    return ranked.sort(["places", "kernel_source"], descending=[True, False], maintain_order=True).unique(
        place, keep="first", maintain_order=True
    )


def _around(points: list[int], at: int) -> list[int]:
    """Return the two points around a place; beyond the last point, the last two."""
    above = next((i for i, point in enumerate(points) if point >= at), len(points) - 1)
    if points[above] == at or len(points) == 1:
        return [points[above]]
    return points[max(above - 1, 0) : above + 1] if above else points[:1]


def _between(points: list[int], at: int, curves: dict[int, Curve]) -> Curve:
    """Return the curve at a place between points that have one each."""
    around = _around(points, at)
    if len(around) == 1:
        return curves[around[0]]
    rows = sorted({row for point in around for row in curves[point].at})
    line = [Curve(tuple(around), tuple(curves[point](row) for point in around))(at) for row in rows]
    return Curve(tuple(rows), tuple(line))
