"""A profile as a cost model: adding kernels up to steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._clock import TICKS_PER_SECOND, ticks
from paceline._fork import use
from paceline._toml import build
from paceline.errors import ConfigError
from paceline.kernels.aisimulate import Database
from paceline.kernels.assembled import assemble
from paceline.kernels.collectives import Link
from paceline.kernels.curve import Curve
from paceline.kernels.grid import Grid
from paceline.kernels.profile import KernelProfile
from paceline.kernels.reading import read_profile
from paceline.kernels.shape import Shape
from paceline.kernels.step import StepKernels
from paceline.kernels.store import Operators, locate
from paceline.model import Model

__all__ = ["OVERHEAD_S", "Table", "table_from_toml"]

#: Seconds of a step that kernels do not explain, by vLLM's version up to the minor number. Fitted to the mean
#: E2E latency of two measured runs at once (RTX 4090 and RTX PRO 6000, Llama-3.1-8B, LLMServingSim's):
#: vLLM 0.19 prepares a step while the one before runs, so next to nothing is left.
OVERHEAD_S = {"0.19": 13e-6}


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Table:
    """A step looked up in measured kernels.

    A decoder block is layernorm, qkv_proj, (qk_norm), rotary_emb, attention, o_proj, layernorm, gate_up_proj,
    act_fn and down_proj, or the experts; embedding, final_layernorm, lm_head and sampler run once a step. All
    is linear between measured points, and held below the first and continued past the last, which results
    flag. Under tensor parallelism a block ends its attention and its MLP with an all-reduce.

    Parameters
    ----------
    profile
        The profile: a path that :func:`~paceline.kernels.reading.read_profile` takes, or the name of an
        imported one (``paceline profiles list``). It may be of operators, from which the instance's model is
        assembled, such as ``aisimulate/h100_sxm/vllm/0.24.0``.
    shape
        The model's layers and widths; None: those of the instance's model.
    overhead_s
        Seconds of a step that kernels do not explain; None: what :data:`OVERHEAD_S` has for the engine's
        version in the profile, else 0.
    link
        The connection of the ranks; needed with more than one rank, unless ``all_reduce`` or the profile has
        its times. If given, it overrides the profile.
    all_reduce
        A measured all-reduce in Vidur's format, used in the place of the link's.
    data_parallel
        Ranks of attention that share the experts. The other ranks are taken to have the same load, unless the
        cluster is in lockstep.
    expert_parallel
        Whether experts are split over all ranks whole; else each expert is split over the tensor-parallel
        ranks, and the profile is of such a split one.
    skew
        Whether unequal contexts are corrected for, if the profile has the data for that.
    row_s
        Seconds of a step for each row that is sampled, so for each request that decodes or ends its prompt
        in it: an engine's work by request on the host, where no step overlaps it.

    expert_token_s
        Seconds that the experts of a layer take for each token of all ranks, at least: where the server's
        kernel is slower than the measured one for many tokens.
    experts_of
        An engine and its version on the same GPU, ``sglang/0.5.14``, whose experts are taken among operators:
        where the server's run in these kernels, and the profile's engine was measured with others.
    matrix_flops
        FLOP/s that multiplications of 8-bit weights reach at most, among operators: where the server's kernel
        is slower than the measured one for many tokens. 0: no limit. Attention that was measured as a whole
        block keeps its projections.

    Raises
    ------
    ConfigError
        If a number is out of range.

    Examples
    --------
    >>> Table(profile="profiles/rtx4090").data_parallel
    1
    """

    profile: str
    shape: Shape | None = None
    overhead_s: float | None = None
    link: Link | None = None
    all_reduce: str | None = None
    data_parallel: int = 1
    expert_parallel: bool = False
    skew: bool = True
    row_s: float = 0.0
    expert_token_s: float = 0.0
    experts_of: str = ""
    matrix_flops: float = 0.0

    def __post_init__(self) -> None:
        _check.count("data_parallel of a Table", self.data_parallel)
        _check.seconds("row_s of a Table", self.row_s)
        _check.seconds("expert_token_s of a Table", self.expert_token_s)
        _check.not_negative("matrix_flops of a Table", self.matrix_flops)
        if self.overhead_s is not None:
            _check.seconds("overhead_s of a Table", self.overhead_s)

    @typed()
    def read(
        self, model: Model | None = None, *, tensor_parallel: int = 1, kv_dtype: str = "auto"
    ) -> KernelProfile:
        """Return the profile; a file is read again only if it has changed.

        Parameters
        ----------
        model, tensor_parallel
            The model and split to assemble from operators, if the profile is one of operators.
        kv_dtype
            Type of the KV cache, by which attention is chosen among operators.

        Raises
        ------
        ConfigError
            If there is no such profile, or it is of operators and there is no model.
        """
        use()
        where = locate(self.profile)
        if isinstance(where, Path):
            return _read(str(where), _touched(where))
        if model is None:
            raise ConfigError(
                f"model of an Instance must be given with the profile {self.profile!r}, to be made up of it"
            )
        experts = (self.data_parallel, self.expert_parallel, self.experts_of, self.matrix_flops)
        return _assembled(where, model, tensor_parallel, kv_dtype, experts, _touched(where.database))

    @typed()
    def step_overhead_s(self, profile: KernelProfile | None = None) -> float:
        """Return the seconds of a step that kernels do not explain.

        Parameters
        ----------
        profile
            The profile, where it has been read.
        """
        if self.overhead_s is not None:
            return self.overhead_s
        version = (profile or self.read()).facts.get("vllm_version", "")
        return OVERHEAD_S.get(".".join(version.split(".")[:2]), 0.0)

    @typed()
    def check(
        self,
        model: Model | None = None,
        *,
        tensor_parallel: int = 1,
        pipeline_parallel: int = 1,
        kv_dtype: str = "auto",
    ) -> None:
        """Refuse a model and split that the profile has no kernels for.

        Parameters
        ----------
        model, tensor_parallel, pipeline_parallel, kv_dtype
            As for :meth:`to_wire`.

        Raises
        ------
        ConfigError
            As :meth:`to_wire` does.
        """
        step = self._step(model, tensor_parallel, pipeline_parallel, kv_dtype)
        step.tokens()
        step.rows()
        for kind in ("decode", "prefill", "mixed"):
            step.attention(kind)

    @typed()
    def to_wire(
        self,
        model: Model | None = None,
        *,
        tensor_parallel: int = 1,
        pipeline_parallel: int = 1,
        kv_dtype: str = "auto",
        shared: bool = True,
        experts_apart: bool = False,
    ) -> dict[str, Any]:
        """Return what the engine is sent: tables in ticks, summed over layers.

        Parameters
        ----------
        model
            The instance's, where the table has no shape of its own.
        tensor_parallel
            Ranks that a layer is split over.
        pipeline_parallel
            Stages that the layers are cut into; hidden state and residual go from one to the next.
        kv_dtype
            Type of the KV cache, as for :meth:`read`.
        shared
            Whether what data-parallel ranks share is in it: experts and exchanges.
        experts_apart
            Whether these are a table of their own, for steps that are padded to CUDA graphs.

        Raises
        ------
        ConfigError
            If the profile lacks a kernel of the model, or is of another split, or there is no model.
        """
        step = self._step(model, tensor_parallel, pipeline_parallel, kv_dtype)
        profile, layers = step.profile, step.shape.layers
        skew = profile.skew if self.skew else None
        experts = step.experts() if shared and experts_apart else None
        return {
            "kind": "table",
            "step": ticks(self.step_overhead_s(profile)),
            "tokens": _curve(step.tokens(shared=shared and experts is None)),
            **({} if experts is None else {"experts": _curve(experts)}),
            "rows": _curve(_sloped(step.rows(), self.row_s)),
            "decode": _grid(step.attention("decode"), layers),
            "prefill": _grid(step.attention("prefill"), layers),
            "mixed": _grid(step.attention("mixed"), layers),
            "skew": None if skew is None else skew.to_wire(),
        }

    @typed()
    def shared_wire(self, model: Model | None = None, *, tensor_parallel: int = 1) -> dict[str, Any]:
        """Return what data-parallel ranks share, in ticks by the tokens of all.

        Parameters
        ----------
        model, tensor_parallel
            As for :meth:`to_wire`.
        """
        return _curve(self._step(model, tensor_parallel).shared())

    def _step(
        self,
        model: Model | None,
        tensor_parallel: int,
        pipeline_parallel: int = 1,
        kv_dtype: str = "auto",
    ) -> StepKernels:
        shape = self.shape
        if shape is None:
            if model is None:
                raise ConfigError("shape of a Table must be given where the instance has no model, was None")
            if model.attention_layers < model.layers:
                raise ConfigError(
                    f"cost of an Instance of {model.name!r} must be a Roofline or an Affine: a Table has "
                    f"kernels of attention in all layers, and this model has it in {model.attention_layers} "
                    f"of {model.layers}"
                )
            shape = Shape.of(model)
        profile = self.read(model, tensor_parallel=tensor_parallel, kv_dtype=kv_dtype)
        return StepKernels(
            profile,
            shape,
            ranks=tensor_parallel,
            stages=pipeline_parallel,
            link=self.link,
            all_reduce=self.all_reduce,
            data_parallel=self.data_parallel,
            expert_parallel=self.expert_parallel,
            expert_token_s=self.expert_token_s,
        )


@lru_cache(maxsize=8)
def _read(path: str, touched: int) -> KernelProfile:
    return read_profile(path)


@lru_cache(maxsize=8)
def _assembled(
    of: Operators,
    model: Model,
    tensor_parallel: int,
    kv_dtype: str,
    experts: tuple[int, bool, str, float],
    touched: int,
) -> KernelProfile:
    return assemble(
        Database(of.database),
        model,
        of.gpu,
        backend=of.backend,  # type: ignore[arg-type]  # any that the database has
        version=of.version,
        tensor_parallel=tensor_parallel,
        data_parallel=experts[0],
        expert_parallel=experts[1],
        kv_dtype=kv_dtype,
        experts_of=experts[2],
        matrix_flops=experts[3],
    )


def _touched(path: Path) -> int:
    """Return when a profile last changed, in nanoseconds."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return max((file.stat().st_mtime_ns for file in files if file.exists()), default=0)


def _curve(curve: Curve) -> dict[str, Any]:
    return {"at": list(curve.at), "ticks": [ticks(value) for value in curve.seconds]}


def _sloped(curve: Curve, each_s: float) -> Curve:
    """Return a curve that rises by some seconds more for each of what it counts."""
    if not each_s:
        return curve
    at = curve.at if len(curve.at) > 1 else (curve.at[0], curve.at[0] + 1)
    return Curve(at, tuple(curve(n) + each_s * n for n in at))


def _grid(grid: Grid, layers: int) -> dict[str, Any]:
    tokens, history, requests, context = (list(axis) for axis in grid.axes)
    values = np.rint(grid.seconds * (layers * TICKS_PER_SECOND)).astype(np.int64)
    return {
        "tokens": tokens,
        "history": history,
        "requests": requests,
        "context": context,
        "ticks": values.reshape(-1).tolist(),
    }


def table_from_toml(content: Mapping[str, Any], what: str) -> Table:
    """Read a table's TOML table, of kind ``table``; ``what`` names it in errors."""
    fields = {key: value for key, value in content.items() if key != "kind"}
    for key, cls in (("shape", Shape), ("link", Link)):
        if isinstance(fields.get(key), dict):
            fields[key] = build(cls, fields[key], f"{key} of {what}")
    return build(Table, fields, what)
