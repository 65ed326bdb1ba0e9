"""A profile as a cost model: adding kernels up to steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from paceline.kernels.collectives import Collective, Link, read_all_reduce
from paceline.kernels.curve import Curve
from paceline.kernels.grid import Grid
from paceline.kernels.profile import KernelProfile
from paceline.kernels.reading import read_profile
from paceline.kernels.shape import Shape
from paceline.kernels.store import Operators, locate
from paceline.model import Model

__all__ = ["OVERHEAD_S", "Table", "table_from_toml"]

#: Layers of a decoder block and how often each is in it; experts stand in for the last three of a dense one.
_BLOCK = {
    "layernorm": 2,
    "qkv_proj": 1,
    "qk_norm": 1,
    "rotary_emb": 1,
    "o_proj": 1,
    "gate_up_proj": 1,
    "act_fn": 1,
    "down_proj": 1,
}
_MLP = ("gate_up_proj", "act_fn", "down_proj")
_ONCE = ("embedding", "final_layernorm")
_OPTIONAL = frozenset({"qk_norm", "rotary_emb"})
#: What attention's own times hold where a profile says that they are of the whole of it.
_ATTENTION = ("qkv_proj", "qk_norm", "rotary_emb", "o_proj")
#: What is in a layer with experts where the experts' own times do not hold it.
_BESIDE_EXPERTS = ("router", "shared_experts")

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
        Where the profile is: what :func:`~paceline.kernels.reading.read_profile` takes; or the name of an
        imported one (``paceline profiles list``), which may be of kernels that the instance's model is then
        made up of, such as ``aisimulate/h100_sxm/vllm/0.24.0``.
    shape
        The model's layers and widths; None: those of the instance's model.
    overhead_s
        Seconds of a step that kernels do not explain; None: what :data:`OVERHEAD_S` has for the engine's
        version in the profile, else 0.
    link
        What joins the ranks; needed with more than one, unless ``all_reduce`` or the profile says what that
        takes. Given, it counts, and not the profile.
    all_reduce
        A measured all-reduce in Vidur's format, used in the place of the link's.
    data_parallel
        Ranks of attention that share the experts. Each takes the others to be as busy as itself, unless their
        cluster is in lockstep.
    expert_parallel
        Whether experts are split over all ranks whole; else each expert is split over the tensor-parallel
        ranks, and the profile is of such a split one.
    skew
        Whether unequal contexts are corrected for, where the profile has what that takes.

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

    def __post_init__(self) -> None:
        _check.count("data_parallel of a Table", self.data_parallel)
        if self.overhead_s is not None:
            _check.seconds("overhead_s of a Table", self.overhead_s)

    @typed()
    def read(self, model: Model | None = None, *, tensor_parallel: int = 1) -> KernelProfile:
        """Return the profile; a file that is looked at again is not read again unless it changed.

        Parameters
        ----------
        model, tensor_parallel
            What to make up of the operators, where the profile is of these.

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
        touched = _touched(where.database)
        return _assembled(where, model, tensor_parallel, self.data_parallel, self.expert_parallel, touched)

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
    def to_wire(
        self,
        model: Model | None = None,
        *,
        tensor_parallel: int = 1,
        pipeline_parallel: int = 1,
        shared: bool = True,
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
        shared
            Whether what data-parallel ranks share is in it: experts and exchanges.

        Raises
        ------
        ConfigError
            If the profile lacks a kernel of the model, or is of another split, or there is no model.
        """
        step = self._step(model, tensor_parallel, pipeline_parallel)
        profile, layers = step.profile, step.shape.layers
        skew = profile.skew if self.skew else None
        return {
            "kind": "table",
            "step": ticks(self.step_overhead_s(profile)),
            "tokens": _curve(step.tokens(shared=shared)),
            "rows": _curve(step.rows()),
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

    def _step(self, model: Model | None, tensor_parallel: int, pipeline_parallel: int = 1) -> _Step:
        shape = self.shape
        if shape is None:
            if model is None:
                raise ConfigError("shape of a Table must be given where the instance has no model, was None")
            shape = Shape.of(model)
        profile = self.read(model, tensor_parallel=tensor_parallel)
        return _Step(self, profile, shape, tensor_parallel, pipeline_parallel)


@lru_cache(maxsize=8)
def _read(path: str, touched: int) -> KernelProfile:
    return read_profile(path)


@lru_cache(maxsize=8)
def _assembled(
    of: Operators, model: Model, tensor_parallel: int, data_parallel: int, expert_parallel: bool, touched: int
) -> KernelProfile:
    return assemble(
        Database(of.database),
        model,
        of.gpu,
        backend=of.backend,  # type: ignore[arg-type]  # any that the database has
        version=of.version,
        tensor_parallel=tensor_parallel,
        data_parallel=data_parallel,
        expert_parallel=expert_parallel,
    )


def _touched(path: Path) -> int:
    """Return when a profile last changed, in nanoseconds."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return max((file.stat().st_mtime_ns for file in files if file.exists()), default=0)


class _Step:
    """The kernels of a profile, added up to the tables of a step."""

    def __init__(
        self, table: Table, profile: KernelProfile, shape: Shape, ranks: int, stages: int = 1
    ) -> None:
        self.table = table
        self.profile = profile
        self.shape = shape
        self.ranks = ranks
        self.stages = stages
        if profile.tensor_parallel not in (None, ranks):
            raise ConfigError(
                f"tensor_parallel must be {profile.tensor_parallel}, which {profile.source} is a rank of, "
                f"was {ranks}"
            )
        linked = table.link is not None or table.all_reduce is not None or profile.collectives
        if (ranks > 1 or table.data_parallel > 1) and not linked:
            raise ConfigError("link of a Table must be given where there is more than one rank, was None")

    def tokens(self, *, shared: bool = True) -> Curve:
        """Return what a step takes by its tokens: blocks without attention, and what runs once."""
        dense, shape = self.profile.dense, self.shape
        mixtures = shape.layers - shape.dense_layers if shape.experts else 0
        parts: list[Curve] = []
        for layer, times in _BLOCK.items():
            layers = shape.layers - mixtures if layer in _MLP else shape.layers
            if not layers or (layer in _ATTENTION and self.profile.whole_attention):
                continue
            if layer in dense:
                parts.append((times * layers) * dense[layer])
            elif layer not in _OPTIONAL:
                raise ConfigError(
                    f"{self.profile.source} must have dense layer {layer!r}, had {sorted(dense)}"
                )
        parts += [dense[layer] for layer in _ONCE if layer in dense]
        if mixtures:
            parts += [mixtures * dense[layer] for layer in _BESIDE_EXPERTS if layer in dense]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        if mixtures and shared:
            total = total + mixtures * self._experts(total.at)
        if self.ranks > 1:
            total = total + self._reductions(total.at)
        return total + self._sends(total.at) if self.stages > 1 else total

    def _sends(self, points: tuple[int, ...]) -> Curve:
        """Return what goes from stage to stage: each rank sends its part, and the next ones gather it."""
        link, ranks = self.table.link, self.ranks
        if link is None:
            raise ConfigError("link of a Table must be given where there is more than one stage, was None")
        message = 2 * self.shape.hidden_size * self.shape.dtype_bytes

        def send(n: int) -> float:
            sent = link.latency_s + n * message / ranks / link.bytes_per_s
            return sent + link.seconds("all_gather", n * message, ranks=ranks)

        return Curve(points, tuple((self.stages - 1) * send(n) for n in points))

    def shared(self) -> Curve:
        """Return the experts of all layers, and their exchanges, by the tokens of all ranks."""
        ranks, mixtures = self.table.data_parallel, self.shape.layers - self.shape.dense_layers
        alone = mixtures * self._experts(self.tokens(shared=False).at)
        return Curve(tuple(ranks * n for n in alone.at), alone.seconds)

    def rows(self) -> Curve:
        """Return what a step takes by its requests: LM head, its gathering over ranks, and sampler."""
        parts = list(self.profile.per_sequence.values())
        if not parts:
            return Curve((1,), (0.0,))
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        if self.ranks > 1:
            row = self.shape.vocab_size * self.shape.dtype_bytes
            gather = self._exchanges("all_gather", "all_gather", self.ranks)
            total = total + Curve(total.at, tuple(gather(n * row) for n in total.at))
        return total

    def attention(self, kind: str) -> Grid:
        """Return one of the three tables of attention."""
        grid: Grid | None = getattr(self.profile, kind)
        if grid is None:
            raise ConfigError(f"{self.profile.source} must have attention of steps that {kind}, had none")
        return grid

    def _reductions(self, points: tuple[int, ...]) -> Curve:
        """Return two all-reduces a block, after attention and after the MLP, and the embedding's."""
        times = 2 * self.shape.layers + 1
        size = self.shape.hidden_size * self.shape.dtype_bytes
        reduce = self._exchanges("all_reduce", "all_reduce", self.ranks)
        return Curve(points, tuple(times * reduce(n * size) for n in points))

    def _exchanges(self, name: str, what: Collective, ranks: int) -> Callable[[float], float]:
        """Return seconds over bytes of a collective: measured in a file, on a link, else by the profile."""
        table = self.table
        if what == "all_reduce" and table.all_reduce is not None:
            return read_all_reduce(table.all_reduce, ranks=ranks)
        link = table.link
        if link is not None:
            return lambda size: link.seconds(what, size, ranks=ranks)
        # An all-reduce that was measured alone stands for what else there is to send: nothing is known of it.
        return self.profile.collectives.get(name, lambda _: 0.0)

    def _experts(self, points: tuple[int, ...]) -> Curve:
        """Return a layer's experts by the tokens of this rank, with what moves tokens to them and back.

        A profile's token is as much work as all the experts that one token is routed to. Under expert
        parallelism the ranks together have ``data_parallel`` times this rank's tokens, of which each rank
        does its share, and which activate that share of the experts that they would in all. Experts that were
        measured on one of as many ranks have that share in them, so their tokens are those of all.
        """
        shape, table, profile = self.shape, self.table, self.profile
        shares = table.data_parallel * self.ranks if table.expert_parallel else 1
        points = tuple(sorted({*points, *(2**i for i in range(12) if 2**i <= points[-1]), *range(1, 65)}))
        times = []
        for n in points:
            together = n * table.data_parallel
            if profile.experts or shares in profile.dealt:
                activated = max(shape.expected_experts(together) / shares, 1.0)
                ranks = shares if shares in profile.dealt else 1
                shared = ranks > 1 or self._is_of_one_of(shares)
                work = together if shared else together / shares
                time = profile.expert_time(work, activated, ranks=ranks)
            elif "experts" in profile.dense:
                time = profile.dense["experts"](together)
            else:
                raise ConfigError(f"kernel profile {profile.source} must have experts for a model with them")
            times.append(time + self._exchange(n))
        return Curve(points, tuple(times))

    def _is_of_one_of(self, shares: int) -> bool:
        """Whether experts that do not say so were measured on one of several ranks.

        Then one token activates a rank's share of the experts that it is routed to, and no number of tokens
        more than the rank has.
        """
        counts = self.profile.experts
        if shares == 1 or not counts:
            return False
        fewest, most = min(counts), max(counts)
        return fewest * shares <= self.shape.experts_per_token and most * shares <= self.shape.experts

    def _exchange(self, tokens: int) -> float:
        """Return what it takes to gather the tokens of all data-parallel ranks, and to scatter their sums.

        vLLM's default, ``allgather_reducescatter``: hidden states and the router's logits one way, hidden
        states the other.
        """
        shape, ranks = self.shape, self.table.data_parallel
        if ranks == 1:
            return 0.0
        together = tokens * ranks * shape.dtype_bytes
        out = self._exchanges("dispatch", "all_gather", ranks)(together * (shape.hidden_size + shape.experts))
        return out + self._exchanges("combine", "reduce_scatter", ranks)(together * shape.hidden_size)


def _curve(curve: Curve) -> dict[str, Any]:
    return {"at": list(curve.at), "ticks": [ticks(value) for value in curve.seconds]}


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
