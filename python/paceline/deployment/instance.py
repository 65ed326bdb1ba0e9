"""An instance: one replica of a model on its GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._clock import ticks
from paceline._toml import build, dump, parse
from paceline.cost import Affine, Roofline
from paceline.cost.traffic import traffic_wire
from paceline.deployment.cuda_graphs import CudaGraphs
from paceline.deployment.kv_memory import KvMemory, kv_memory
from paceline.deployment.pages import Pages, pages_of
from paceline.deployment.sizing import default_batching, longest_sequence
from paceline.deployment.toml import instance_fields, instance_table
from paceline.errors import ConfigError, FitError
from paceline.hardware import Gpu
from paceline.hardware.efficiency import fitted_to
from paceline.kernels.loaded import is_table
from paceline.model import DTYPE_BYTES, Model
from paceline.speculation import Speculation

if TYPE_CHECKING:
    from paceline.kernels.table import Table

__all__ = ["Instance"]

_GIB = 2**30
# What the engine takes: rust/core/src/config/limits.rs. Its blocks are without vLLM's null block.
_MOST_BLOCK_TOKENS = 2**20
_MOST_BLOCKS = 2**32 - 1
_MOST_KV_BYTES = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(
    but=(
        "block_tokens",
        "cost",
        "cuda_graphs",
        "gpu",
        "max_model_len",
        "model",
        "num_blocks",
        "speculation",
    )
)
class Instance:
    """A replica of the model on its GPUs.

    Parameters
    ----------
    model
        A name from the catalog, or a :class:`Model`. May be left out if ``cost`` and ``num_blocks`` are given
        and the cost needs no model.
    gpu
        A name from the catalog, or a :class:`Gpu`. May be left out likewise.
    tensor_parallel
        GPUs that a layer is split over.
    pipeline_parallel
        Stages that the layers are divided into, of ``tensor_parallel`` GPUs each. One step is in flight at a
        time: it passes all stages before the next step is formed, while all stages but one are idle. So the
        latency of a step and the memory for KV are those of all stages. vLLM keeps as many batches in flight
        as there are stages, so that the throughput of a loaded server is up to that many times higher than
        here. That is not modelled.
    block_tokens
        Tokens in a KV block, at most 2**20. For a hybrid model the least, as in vLLM: see :attr:`pages`.
    num_blocks
        KV blocks as vLLM counts and logs them, at most 2**32 - 1. Block 0 is its null block, so one fewer
        holds tokens. By default computed from the memory (:func:`paceline.deployment.kv_memory`).
    gpu_memory_utilization
        Share of the GPU's memory that the engine may use; 0.92 is vLLM 0.33's default.
    max_model_len
        The longest sequence that is accepted, in tokens. By default the model's (without a model: no limit);
        ``"auto"`` lowers that to what fits.
    cost
        The time of a step: an :class:`Affine` line, a :class:`Roofline`, or a
        :class:`~paceline.kernels.Table` of measured kernels; by default a roofline with the catalog's
        efficiencies.
    kv_dtype
        Type of the KV cache's numbers: ``"auto"`` (the model's), ``"fp8"``, ``"bfloat16"``, ``"float16"``.
    kv_bytes
        Bytes of one token's keys and values over all GPUs, which a transfer to another instance moves, at
        most 2**32 - 1. A model gives them, so they are only given without one. Without both, a transfer takes
        no time but the latency.
    served_model_name
        The name by which requests ask for its model, in the trace's column ``model``, as
        ``--served-model-name`` of ``vllm serve``. Rules then pick this instance only for requests of that
        name, or of none. None: it serves every request.
    speculation
        How tokens are drafted and verified, as a :class:`~paceline.Speculation`. None: a step yields one
        token of a request. A draft takes time, and its weights and KV take memory.
    cuda_graphs
        The CUDA graphs to whose sizes steps are padded, as :class:`CudaGraphs`. None: a step takes the time
        of its own tokens.
    prompt_step_s
        Seconds that a step with prompt tokens takes at least: no CUDA graph holds such a step whole, so that
        the host launches it piece by piece. Steps that only decode have no such time.

    Raises
    ------
    ConfigError
        If a value is out of range, a needed model or GPU is missing, the weights do not fit, or one sequence
        of ``max_model_len`` tokens does not (at which vLLM refuses to start).

    Examples
    --------
    >>> instance = Instance(model="llama-3.1-8b", gpu="h100-sxm")
    >>> instance.default_batching()
    (8192, 1024)
    >>> from paceline.cost import Affine
    >>> Instance(cost=Affine(step_s=0.01), num_blocks=101).to_wire()["blocks"]
    100
    """

    model: str | Model | None = None
    gpu: str | Gpu | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    block_tokens: int = 16
    num_blocks: int | None = None
    gpu_memory_utilization: float = 0.92
    max_model_len: int | Literal["auto"] | None = None
    cost: Affine | Roofline | Table | None = None
    kv_dtype: str = "auto"
    kv_bytes: int | None = None
    served_model_name: str | None = None
    speculation: Speculation | None = None
    cuda_graphs: CudaGraphs | None = None
    prompt_step_s: float = 0.0

    def __post_init__(self) -> None:
        _check.seconds("prompt_step_s of an Instance", self.prompt_step_s)
        _check.count("tensor_parallel of an Instance", self.tensor_parallel)
        _check.count("pipeline_parallel of an Instance", self.pipeline_parallel)
        _check.count(
            "block_tokens of an Instance",
            self.block_tokens,
            most=_MOST_BLOCK_TOKENS,
            why="the engine keeps a counter for each token of a block",
        )
        _check.fraction("gpu_memory_utilization of an Instance", self.gpu_memory_utilization)
        if self.num_blocks is not None:
            _check.count(
                "num_blocks of an Instance",
                self.num_blocks,
                least=2,
                most=_MOST_BLOCKS,
                why="the engine numbers blocks in 32 bits",
            )
        if self.kv_bytes is not None:
            _check.count(
                "kv_bytes of an Instance",
                self.kv_bytes,
                most=_MOST_KV_BYTES,
                why="the engine multiplies it by tokens in 64 bits",
            )
            if self.model is not None:
                raise ConfigError(
                    f"kv_bytes of an Instance must be left out where there is a model, was {self.kv_bytes}"
                )
        limit = self.max_model_len
        if limit is not None and not (isinstance(limit, str) and limit == "auto"):
            _check.count("max_model_len of an Instance", self.max_model_len)
        if self.kv_dtype != "auto" and self.kv_dtype not in DTYPE_BYTES:
            known = ", ".join(DTYPE_BYTES)
            raise ConfigError(
                f"kv_dtype of an Instance must be auto or one of {known}, was {self.kv_dtype!r}"
            )
        for name, value, kind in (("model", self.model, Model), ("gpu", self.gpu, Gpu)):
            if value is not None and not isinstance(value, str | kind):
                raise ConfigError(
                    f"{name} of an Instance must be a name or a {kind.__name__}, was {_check.said(value)}"
                )
        if not (self.cost is None or isinstance(self.cost, Affine | Roofline) or is_table(self.cost)):
            raise ConfigError(
                f"cost of an Instance must be an Affine, a Roofline or a Table, was {_check.said(self.cost)}"
            )
        self._check_parts()
        if self.served_model_name == "":
            raise ConfigError("served_model_name of an Instance must be a name, or None for all, was ''")
        self._check_fit()

    def _check_parts(self) -> None:
        """Refuse parts of another type, and those that are not modelled together."""
        parts = (
            ("speculation", "a ", Speculation),
            ("cuda_graphs", "", CudaGraphs),
        )
        for name, article, part in parts:
            value = getattr(self, name)
            if not (value is None or isinstance(value, part)):
                said = f"must be {article}{part.__name__}, was {_check.said(value)}"
                raise ConfigError(f"{name} of an Instance {said}")

    def _check_fit(self) -> None:
        """Refuse parts that do not fit together, under vLLM's default batching."""
        blocks = self._blocks(*self.default_batching())
        self._moved_bytes()
        self._longest(blocks)
        if is_table(self.cost):
            self.cost.check(
                self.resolved_model,
                tensor_parallel=self.tensor_parallel,
                pipeline_parallel=self.pipeline_parallel,
                kv_dtype=self.kv_dtype,
            )
        elif not isinstance(self.cost, Affine):
            model, gpu = self._need("the roofline")
            (self.cost or Roofline()).check(
                model,
                gpu,
                tensor_parallel=self.tensor_parallel,
                pipeline_parallel=self.pipeline_parallel,
            )

    @property
    def resolved_model(self) -> Model | None:
        """The model, loaded from the catalog if it was given by name."""
        return Model.load(self.model) if isinstance(self.model, str) else self.model

    @property
    def resolved_gpu(self) -> Gpu | None:
        """The GPU, loaded from the catalog if it was given by name."""
        return Gpu.load(self.gpu) if isinstance(self.gpu, str) else self.gpu

    @property
    def borrowed_fit(self) -> str | None:
        """The model, GPU and split that the efficiencies were fitted to, if they are not this instance's."""
        efficiency = self.cost.efficiency if isinstance(self.cost, Roofline) else None
        model, gpu = self.resolved_model, self.resolved_gpu
        if efficiency is None or not efficiency.fitted_to or model is None or gpu is None:
            return None
        own = fitted_to(model.name, gpu.name, self.tensor_parallel)
        return None if efficiency.fitted_to == own else f"{own} has the fit of {efficiency.fitted_to}"

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values of one token, over all layers, on each GPU."""
        model, _ = self._need("kv_bytes_per_token", gpu=False)
        return model.kv_bytes_per_token(self.tensor_parallel, self.kv_dtype)

    @property
    def pages(self) -> Pages:
        """Tokens and bytes of a block, and the blocks of a request's states; without a model, bytes are 0.

        Examples
        --------
        >>> Instance(model="qwen3-next-80b-a3b", gpu="h200", tensor_parallel=2).pages
        Pages(block_tokens=544, block_bytes=6684672, state_blocks=3)
        """
        model = self.resolved_model
        if model is None:
            return Pages(block_tokens=self.block_tokens, block_bytes=0, state_blocks=0)
        return pages_of(
            model,
            tensor_parallel=self.tensor_parallel,
            block_tokens=self.block_tokens,
            kv_dtype=self.kv_dtype,
        )

    @property
    def block_bytes(self) -> int:
        """Bytes of one block on each GPU."""
        self._need("block_bytes", gpu=False)
        return self.pages.block_bytes

    @property
    def usable_blocks(self) -> int:
        """KV blocks that hold tokens, under vLLM's default batching: all but the null block."""
        return self._blocks(*self.default_batching()) - 1

    @typed()
    def memory(
        self, *, max_num_batched_tokens: int | None = None, max_num_seqs: int | None = None
    ) -> KvMemory:
        """Return how the memory of one GPU is divided; ``num_blocks`` is ignored.

        Parameters
        ----------
        max_num_batched_tokens, max_num_seqs
            The scheduler's limits; by default vLLM's for the GPU.
        """
        model, gpu = self._need("the memory rule")
        tokens, seqs = self.default_batching()
        memory = kv_memory(
            model,
            gpu,
            tensor_parallel=self.tensor_parallel,
            block_tokens=self.block_tokens,
            gpu_memory_utilization=self.gpu_memory_utilization,
            max_num_batched_tokens=max_num_batched_tokens or tokens,
            max_num_seqs=max_num_seqs or seqs,
            kv_dtype=self.kv_dtype,
            expert_ranks=self._expert_ranks(),
            pipeline_parallel=self.pipeline_parallel,
        )
        draft = None if self.speculation is None else self.speculation.draft
        if draft is None:
            return memory
        kv_bytes = draft.kv_bytes_per_token(model, self.tensor_parallel, self.kv_dtype)
        return replace(
            memory,
            weight_bytes=memory.weight_bytes + draft.weight_bytes(model, self.tensor_parallel),
            block_bytes=memory.block_bytes + self.pages.block_tokens * kv_bytes,
        )

    def default_batching(self) -> tuple[int, int]:
        """Return vLLM's defaults of ``max_num_batched_tokens`` and ``max_num_seqs``.

        See :func:`~paceline.deployment.sizing.default_batching`.
        """
        return default_batching(self.resolved_gpu)

    @typed()
    def to_wire(
        self,
        *,
        max_num_batched_tokens: int | None = None,
        max_num_seqs: int | None = None,
        tiered: bool = False,
        two_steps: bool = False,
    ) -> dict[str, Any]:
        """Return the instance as the engine reads it, without its scheduler and the tiers of its cache.

        Parameters
        ----------
        max_num_batched_tokens, max_num_seqs
            The scheduler's limits, which decide how much memory is left for KV; by default vLLM's for the
            GPU.
        tiered
            Whether its prefix cache has tiers.
        two_steps
            Whether its decodes have slots for the drafts of two steps.

        Raises
        ------
        ConfigError
            If under these limits the weights, or one sequence of ``max_model_len`` tokens, do not fit.
        """
        tokens, seqs = self.default_batching()
        tokens, seqs = max_num_batched_tokens or tokens, max_num_seqs or seqs
        blocks = self._blocks(tokens, seqs)
        traffic = self._traffic()
        return {
            "blocks": blocks - 1,
            "block_tokens": self.pages.block_tokens,
            "max_model_len": self._longest(blocks),
            "kv_bytes_per_token": self._moved_bytes(),
            "kv_layers": 1 if self.resolved_model is None else self.resolved_model.mixers,
            **self._states(),
            "cost": self._floored(self.padded(self._cost(), tokens, seqs)),
            **({} if traffic is None else {"traffic": traffic}),
            **self._speculation(tokens, seqs, tiered=tiered, two_steps=two_steps),
        }

    def padded(self, cost: dict[str, Any], max_num_batched_tokens: int, max_num_seqs: int) -> dict[str, Any]:
        """Return a cost as the engine reads it, of steps that are padded to this instance's CUDA graphs."""
        if self.cuda_graphs is None:
            return cost
        captured = self.cuda_graphs.to_wire(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            gpu=self.resolved_gpu,
            speculation=self.speculation,
        )
        return {"kind": "graphs", "captured": captured, "cost": cost}

    def _floored(self, cost: dict[str, Any]) -> dict[str, Any]:
        floor = ticks(self.prompt_step_s)
        return {"kind": "floor", "prompts": floor, "cost": cost} if floor else cost

    def _speculation(self, tokens: int, seqs: int, *, tiered: bool, two_steps: bool) -> dict[str, Any]:
        if self.speculation is None:
            return {}
        wire = self.speculation.to_wire(
            self.resolved_model,
            self.resolved_gpu,
            tensor_parallel=self.tensor_parallel,
            kv_dtype=self.kv_dtype,
            tiered=tiered,
            two_steps=two_steps,
        )
        if wire["draft"] is not None:
            # vLLM's drafters capture the same sizes. The least time is one of the target's layers.
            wire["draft"] = self.padded(wire["draft"], tokens, seqs)
            wire["draft"].get("captured", {}).pop("eager", None)
        return {"speculation": wire}

    def _expert_ranks(self) -> int | None:
        """Return the ranks that share the experts; ``None`` if those are the tensor-parallel ranks."""
        cost = self.cost
        if not (isinstance(cost, Roofline) or is_table(cost)):
            return None
        shared = cost.expert_parallel or cost.data_parallel > 1
        return self.tensor_parallel * cost.data_parallel if shared else None

    def _traffic(self) -> dict[str, Any] | None:
        """Return the coefficients of bytes and FLOPs; None without a model."""
        model, gpu, cost = self.resolved_model, self.resolved_gpu, self.cost
        if model is None or (is_table(cost) and cost.shape is not None):
            return None
        return traffic_wire(
            model,
            tensor_parallel=self.tensor_parallel,
            kv_dtype=self.kv_dtype,
            coverage=cost.coverage if isinstance(cost, Roofline) else None,
            expert_parallel=(isinstance(cost, Roofline) or is_table(cost)) and cost.expert_parallel,
            data_parallel=cost.data_parallel if isinstance(cost, Roofline) or is_table(cost) else 1,
            pipeline_parallel=self.pipeline_parallel,
            energy=None if gpu is None else gpu.energy,
        )

    def to_toml(self) -> str:
        """Return the instance as the text of a TOML file."""
        return dump(instance_table(self))

    @classmethod
    @typed()
    def from_toml(cls, text: str) -> Instance:
        """Read what :meth:`to_toml` wrote."""
        what = "an instance"
        return build(cls, instance_fields(parse(text, what), what), what)

    def _need(self, what: str, *, gpu: bool = True) -> tuple[Model, Gpu]:
        """Return model and GPU; if one is missing, raise an error that says what needs it."""
        model, device = self.resolved_model, self.resolved_gpu
        if model is None or (gpu and device is None):
            missing = "a model" if model is None else "a gpu"
            raise ConfigError(
                f"an Instance without {missing} must have both a cost and num_blocks: {what} needs {missing}"
            )
        return model, device  # type: ignore[return-value]  # callers that pass gpu=False drop it

    def _blocks(self, max_num_batched_tokens: int, max_num_seqs: int) -> int:
        """Return the blocks as vLLM counts them."""
        if self.num_blocks is not None:
            return self.num_blocks
        memory = self.memory(max_num_batched_tokens=max_num_batched_tokens, max_num_seqs=max_num_seqs)
        if memory.blocks < 2:
            model, gpu = self._need("the memory rule")
            gpus = self.tensor_parallel * self.pipeline_parallel
            raise FitError(
                f"{model.name} does not fit on {gpus} x {gpu.name}: of "
                f"{memory.requested_bytes / _GIB:.2f} GiB, weights take {memory.weight_bytes / _GIB:.2f}, "
                f"activations {memory.activation_bytes / _GIB:.2f} and the rest "
                f"{memory.other_bytes / _GIB:.2f}, which leaves no room for KV; a larger "
                f"tensor_parallel, pipeline_parallel, gpu_memory_utilization or gpu, or a smaller "
                f"max_num_seqs, would leave some"
            )
        return memory.blocks

    def _longest(self, blocks: int) -> int | None:
        """Return the longest sequence accepted, given the blocks as vLLM counts them."""
        pages = self.pages
        return longest_sequence(
            self.max_model_len,
            model=self.resolved_model,
            blocks=blocks - 1,
            block_tokens=pages.block_tokens,
            state_blocks=pages.state_blocks,
        )

    def _states(self) -> dict[str, int]:
        """Return the blocks and the bytes of a request's states, over all GPUs; nothing without any."""
        model = self.resolved_model
        if model is None or model.recurrent is None:
            return {}
        moved = self.tensor_parallel * model.state_bytes(self.tensor_parallel)
        return {"state_blocks": self.pages.state_blocks, "state_bytes": moved}

    def _moved_bytes(self) -> int:
        """Return the bytes of a token's keys and values over all GPUs; 0 if they are not known."""
        if self.resolved_model is None:
            return self.kv_bytes or 0
        return self.tensor_parallel * self.kv_bytes_per_token

    def _cost(self) -> dict[str, Any]:
        if isinstance(self.cost, Affine):
            return self.cost.to_wire()
        if is_table(self.cost):
            return self.cost.to_wire(
                self.resolved_model,
                tensor_parallel=self.tensor_parallel,
                pipeline_parallel=self.pipeline_parallel,
                kv_dtype=self.kv_dtype,
                experts_apart=self.cuda_graphs is not None,
            )
        model, gpu = self._need("the roofline")
        roofline = self.cost or Roofline()
        return roofline.to_wire(
            model,
            gpu,
            tensor_parallel=self.tensor_parallel,
            kv_dtype=self.kv_dtype,
            pipeline_parallel=self.pipeline_parallel,
        )
