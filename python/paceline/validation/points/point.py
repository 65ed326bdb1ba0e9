"""A measured point: a server, its load, and what was measured; or the reason why it is not modelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from paceline._arguments import typed_fields
from paceline.model import Model
from paceline.validation.points.workloads import Workload

__all__ = ["METRICS", "Engine", "Point", "Refused", "Server", "Split"]

#: What is scored, by the names of JSON: seconds, and output tokens a second.
METRICS = ("ttft", "tpot", "e2e", "throughput")

Engine = Literal["vllm", "sglang", "trtllm"]


class Split(NamedTuple):
    """How an instance's GPUs share a model.

    Attributes
    ----------
    tensor_parallel
        GPUs of a rank of attention.
    data_parallel
        Ranks of attention that share the experts.
    expert_parallel
        Whether GPUs hold whole experts.
    """

    tensor_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Server:
    """What serves a point. Equal servers are built once.

    Parameters
    ----------
    engine, version
        The engine; an empty version where the data do not say.
    model
        The shape and its types of weights.
    gpu
        The catalog's name.
    tensor_parallel, data_parallel, expert_parallel
        How an instance's GPUs share the model: see :class:`Split`.
    instances
        Replicas; with ``prefill``, all of them.
    prefill
        Of them, those that only prefill; 0: prompts and decodes share instances.
    prefill_split
        How those share the model; None: as the others do.
    network
        With ``prefill``, the link between instances that is assumed, a port a GPU, where the data do not say
        which it is.
    max_num_seqs, max_num_batched_tokens
        The scheduler's limits; None: the engine's defaults. With ``prefill``, the former is that of instances
        that decode.
    receive_interval
        Steps from one receipt of arrivals to the next.
    mixed_chunk
        Whether decodes of SGLang run beside prompts.
    batch_wait
        The steps for which TensorRT-LLM has prompts wait for a batch, and the share of a step's tokens that
        is enough of one; of no steps: they do not wait.
    balance
        The steps for which prompts of its ranks of attention wait until each has one, and then for others to
        gather; None: not known, or they do not wait.
    moe_backend
        Whose kernels TensorRT-LLM's experts run in; empty: not known.
    prompt_graphs
        Whether steps with prompts run in CUDA graphs.
    matrix_flops
        FLOP/s that 8-bit matrices outside experts reach at most, where the tables have other kernels; 0: they
        have those of the server.
    expert_token_s
        Seconds of a layer's experts for each token, at least, where the tables have faster kernels.
    step_s
        Seconds of each step beyond those of the engine's host.
    cold_s
        Seconds until a server that has just started is ready for the first prompts of a closed loop.
    num_blocks
        KV blocks as the server logged them; None: those of the memory rule.
    memory
        Share of the GPU's memory that the engine may use, by its own rule: vLLM's ``gpu_memory_utilization``,
        SGLang's ``mem_fraction_static``, TensorRT-LLM's ``free_gpu_memory_fraction``. None: 0.9, for SGLang
        by vLLM's rule.
    kv_dtype
        Type of the KV cache; ``auto``: the model's.
    prefix_caching
        Whether it was on and prompts share prefixes.
    profile
        Kernels measured on the same machine; None: those of an imported profile, where there is one.
    """

    engine: Engine
    version: str
    model: Model
    gpu: str
    tensor_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: bool = False
    instances: int = 1
    prefill: int = 0
    prefill_split: Split | None = None
    network: str | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    receive_interval: int = 1
    mixed_chunk: bool = False
    batch_wait: tuple[int, float] = (0, 0.0)
    balance: tuple[int, int] | None = None
    moe_backend: str = ""
    prompt_graphs: bool = False
    matrix_flops: float = 0.0
    expert_token_s: float = 0.0
    step_s: float = 0.0
    cold_s: float = 0.0
    num_blocks: int | None = None
    memory: float | None = None
    kv_dtype: str = "auto"
    prefix_caching: bool = False
    profile: str | None = None

    @property
    def assumed(self) -> str:
        """What a replay takes for granted that the data do not say; empty if nothing.

        The network between instances that prefill and that decode; and that ranks of attention have as many
        tokens as each other in each step, where they step on their own here: those of TensorRT-LLM of which
        no script says for how long prompts wait until all ranks have one
        (``attention_dp_config.enable_balance``). With prefill apart none wait: where prompts are computed, no
        rank has a request that decodes, which is what ``_balance_adp_requests`` waits beside.
        """
        ranks = self.data_parallel > 1 and not self.prefill
        balance = ranks and self.engine == "trtllm" and not self.balance
        parts = ("network",) * (self.network is not None) + ("balance",) * balance
        return " and ".join(parts)

    @property
    def prefilling(self) -> Server:
        """The server, with its GPUs shared as those of instances that prefill."""
        if self.prefill_split is None:
            return self
        return replace(self, **self.prefill_split._asdict(), prefill_split=None)

    @property
    def gpus(self) -> int:
        """GPUs of all instances."""
        one, other = self.prefilling, self.instances - self.prefill
        prefill = one.tensor_parallel * one.data_parallel * self.prefill
        return prefill + self.tensor_parallel * self.data_parallel * other

    @property
    def expert_ranks(self) -> int | None:
        """GPUs that hold whole experts, or those of all ranks of attention; None: each has a part of all."""
        shared = self.expert_parallel or self.data_parallel > 1
        return self.tensor_parallel * self.data_parallel if shared else None

    @property
    def parallel(self) -> str:
        """How the model is split, in a word."""
        split = f"TP {self.tensor_parallel}" if self.data_parallel == 1 else f"DP {self.data_parallel}"
        split += ", EP" if self.expert_parallel else ""
        if self.prefill:
            return f"{self.prefill}P{self.instances - self.prefill}D, {split}"
        return split if self.instances == 1 else f"{self.instances} x {split}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
@typed_fields()
class Point:
    """A measured point.

    Parameters
    ----------
    id
        Its name: the file below the folder, and the row or the run.
    server
        What served it.
    precision
        Types of its weights, as groups name them.
    workload
        What was sent.
    measured
        The value of each of :data:`METRICS` that was measured.
    statistic
        What of the requests is measured, of TTFT, TPOT and E2E latency.
    in_flight
        Requests in flight on an instance, on average, by which points are divided into regimes.
    edge
        Whether the load is at the edge of what the server can do: its throughput is scored alone.
    peers
        The same metrics as other predictors have them, by their names.
    fitted
        Which constants were read off this point, or off others of the same runs.
    mean_tpot
        The mean TPOT where a median is scored, by which a run that stands twice is known; None: as measured.
    """

    id: str
    server: Server
    precision: str
    workload: Workload
    measured: Mapping[str, float]
    statistic: Literal["mean", "median"] = "mean"
    in_flight: float
    edge: bool = False
    peers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    fitted: str = ""
    mean_tpot: float | None = None

    @property
    def regime(self) -> str:
        """The load by requests in flight on an instance: light up to 8, busy up to 64, heavy, or the edge."""
        if self.edge:
            return "edge of capacity"
        return "light" if self.in_flight <= 8 else "busy" if self.in_flight <= 64 else "heavy"

    def _load(self) -> str:
        """Return how requests are sent, or that prefill is apart, or what is assumed."""
        server, assumed = self.server, self.server.assumed
        kind = self.workload.kind if not assumed else "ranks of attention"
        if server.prefill:
            ranks = max(server.data_parallel, server.prefilling.data_parallel) > 1
            kind = "prefill apart, ranks of attention" if ranks else "prefill apart"
        return f"{kind}, {assumed} assumed" if assumed else kind

    def groups(self) -> Mapping[str, str]:
        """Return the group of each kind that the point is in."""
        server = self.server
        return {
            "gpu": server.gpu,
            "engine": f"{server.engine} {server.version or '?'}",
            "model": server.model.name,
            "precision": self.precision,
            "parallel": server.parallel,
            "regime": self.regime,
            "load": self._load(),
            "layers": "dense" if server.model.experts is None else "mixture",
            "data": self.id.partition("#")[0],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Refused:
    """A point that is not modelled.

    Parameters
    ----------
    id
        As a :class:`Point`'s.
    reason
        What it would need; equal reasons are counted together.
    """

    id: str
    reason: str
