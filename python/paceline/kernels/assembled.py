"""A model's profile, made up of the operators in AISimulate's database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import polars as pl

from paceline.errors import ConfigError
from paceline.kernels.aisimulate import Database
from paceline.kernels.curve import Curve
from paceline.kernels.grid import Grid
from paceline.kernels.operators import causal_points, mixed_grid
from paceline.kernels.profile import KernelProfile
from paceline.model import Model

__all__ = ["Backend", "assemble"]

Backend = Literal["vllm", "sglang", "trtllm"]

_MS = 1e-3


def assemble(
    database: Database,
    model: Model,
    gpu: str,
    *,
    backend: Backend = "vllm",
    version: str | None = None,
    tensor_parallel: int = 1,
) -> KernelProfile:
    """Make a dense model's profile of what the database has on a GPU.

    Matrix multiplications lie between measured widths, linear on each; attention must have been measured with
    the rank's number of heads. Norms, rotary positions and activation are their memory traffic over the
    bandwidth and constant latency of the database's system file. Contexts of unequal length were not
    measured.

    Parameters
    ----------
    database
        Where the operators are.
    model
        The model.
    gpu
        As the database calls it: ``h100_sxm``, ``rtx_pro_6000_server``.
    backend, version
        Whose kernels; None: the newest that each table has.
    tensor_parallel
        Ranks that the model is split over.

    Returns
    -------
    KernelProfile
        Of one rank.

    Raises
    ------
    ConfigError
        If the database lacks a table, or attention with as many heads.
    """
    if model.experts is not None or model.latent is not None or model.sliding_layers:
        raise ConfigError(
            "model of an assembled profile must be dense, with full attention in every layer; "
            f"{model.name} is not"
        )
    model.check_parallel(tensor_parallel)
    rank = _Rank(database, model, gpu, backend, version, tensor_parallel)
    decode, prefill = rank.decode(), rank.prefill()
    return KernelProfile(
        name=f"{model.name} on {gpu}",
        source=f"{database.where} ({backend})",
        dense=rank.dense(),
        per_sequence={"lm_head": rank.multiplication(model.hidden_size, model.vocab_size // tensor_parallel)},
        decode=decode,
        prefill=prefill,
        mixed=mixed_grid(prefill, decode),
        tensor_parallel=tensor_parallel,
        facts={"format": "aisimulate", "gpu": gpu, "backend": backend, **rank.versions},
    )


class _Rank:
    def __init__(
        self, database: Database, model: Model, gpu: str, backend: str, version: str | None, ranks: int
    ) -> None:
        self.database, self.model, self.gpu = database, model, gpu
        self.backend, self.version = backend, version
        self.versions: dict[str, str] = {}
        self.heads = model.heads // ranks
        self.kv_heads = model.kv_heads_per_rank(ranks)
        self.mlp = model.intermediate_size // ranks
        self.number = model.kv_dtype_bytes(model.dtype)
        system = database.system(gpu)
        scale = float(system.get("gpu.mem_bw_empirical_scaling_factor", "1"))
        self.bandwidth = float(system["gpu.mem_bw"]) * scale
        self.latency = float(system.get("gpu.mem_empirical_constant_latency", "0"))
        self.products = self._table("gemm_perf").filter(pl.col("gemm_dtype") == model.dtype)

    def _table(self, file: str) -> pl.DataFrame:
        release = self.database.find(self.gpu, file, backend=self.backend, version=self.version)
        self.versions[f"{file}_version"] = release.version
        return self.database.table(release)

    def dense(self) -> dict[str, Curve]:
        """Return the layers of a block, and what runs once."""
        hidden, head = self.model.hidden_size, self.model.head_dim
        query, key = self.heads * head, self.kv_heads * head
        multiply = {
            "qkv_proj": (hidden, query + 2 * key),
            "o_proj": (query, hidden),
            "gate_up_proj": (hidden, 2 * self.mlp),
            "down_proj": (self.mlp, hidden),
        }
        # Numbers that each token reads and writes.
        touch = {
            "layernorm": 4 * hidden,
            "rotary_emb": 2 * (query + key),
            "act_fn": 3 * self.mlp,
            "embedding": 2 * hidden,
            "final_layernorm": 4 * hidden,
        }
        if self.model.qk_norm:
            touch["qk_norm"] = 2 * (query + key)
        curves = {layer: self.multiplication(*widths) for layer, widths in multiply.items()}
        return curves | {layer: self._traffic(numbers) for layer, numbers in touch.items()}

    def _traffic(self, numbers: int) -> Curve:
        points = (1, 8192)
        times = (self.latency + n * numbers * self.number / self.bandwidth for n in points)
        return Curve(points, tuple(times))

    def multiplication(self, inputs: int, outputs: int) -> Curve:
        """Return a matrix multiplication over its rows."""
        measured = {
            (n, k): Curve.of((m, _MS * ms) for m, ms in rows.select("m", "latency").iter_rows())
            for (n, k), rows in self.products.group_by("n", "k")
        }
        if not measured:
            raise ConfigError(f"{self.database.where} must have {self.model.dtype} gemm on {self.gpu}")
        by_inputs: dict[int, list[int]] = {}
        for n, k in measured:
            by_inputs.setdefault(int(k), []).append(int(n))
        rows = sorted({m for curve in measured.values() for m in curve.at})

        def at(m: int) -> float:
            lines = {
                k: Curve(tuple(sorted(widths)), tuple(measured[n, k](m) for n in sorted(widths)))(outputs)
                for k, widths in by_inputs.items()
            }
            return Curve(tuple(sorted(lines)), tuple(lines[k] for k in sorted(lines)))(inputs)

        return Curve(tuple(rows), tuple(at(m) for m in rows))

    def _attention(self, file: str) -> pl.DataFrame:
        table = self._table(file)
        if "window_size" not in table.columns:  # tables from before sliding windows were measured
            table = table.with_columns(window_size=0)
        rows = table.filter(
            (pl.col("num_heads") == self.heads)
            & (pl.col("num_key_value_heads") == self.kv_heads)
            & (pl.col("head_dim") == self.model.head_dim)
            & (pl.col("window_size") == 0)
            & (pl.col("kv_cache_dtype") == self.model.dtype)
            & (pl.col("attn_dtype") == self.model.dtype)
        )
        if rows.is_empty():
            raise ConfigError(
                f"{file} of {self.backend} on {self.gpu} must have {self.heads} heads over {self.kv_heads} "
                f"key and value heads of {self.model.head_dim}, had none"
            )
        return rows

    def decode(self) -> Grid:
        """Return attention of decodes: requests by context, as measured."""
        rows = self._attention("generation_attention_perf")
        points = rows.select("batch_size", pl.col("isl") + pl.col("step"), "latency").iter_rows()
        return Grid.of([(0, 0, batch, context, _MS * ms) for batch, context, ms in points])

    def prefill(self) -> Grid:
        """Return attention of one prompt after a history, from those without."""
        rows = self._attention("context_attention_perf").filter(
            (pl.col("batch_size") == 1) & (pl.col("step") == 0)
        )
        whole: Callable[[float], float] = Curve.of(
            (tokens, _MS * ms) for tokens, ms in rows.select("isl", "latency").iter_rows()
        )
        return Grid.of(causal_points(whole, longest=rows.get_column("isl").max()))  # type: ignore[arg-type]
