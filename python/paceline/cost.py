"""What a step takes: the cost models that Python builds and the engine evaluates.

An :class:`Affine` is three prices. A :class:`Roofline` is worked out from a model, a GPU and an
:class:`Efficiency`: each kernel takes the longer of its memory time and its arithmetic time, and the step is
their sum. Both cross to the engine once, reduced to whole ticks of a picosecond, and are exact there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from paceline import _check
from paceline._toml import build, dump, parse, table
from paceline.errors import ConfigError

if TYPE_CHECKING:
    from paceline.hardware import Gpu
    from paceline.model import Model

__all__ = ["Affine", "Cost", "Efficiency", "Roofline", "cost_from_table", "cost_to_table", "ticks"]

_TICKS_PER_SECOND = 10**12
_LONGEST_S = (
    10**6
)  # a price above eleven days is a mistake of units, and the engine's sums stay far from 2**64
_PAIR_FRACTION_BITS = 20  # as rust/core/src/cost/roofline.rs


def ticks(seconds: float, what: str = "a time") -> int:
    """Return seconds as ticks of the engine's clock, to the nearest picosecond.

    Raises
    ------
    ConfigError
        If the time is negative, not finite, or above eleven days.

    Examples
    --------
    >>> ticks(0.005)
    5000000000
    """
    _check.seconds(what, seconds)
    if seconds > _LONGEST_S:
        raise ConfigError(f"{what} must be at most {_LONGEST_S} s, was {seconds!r}")
    return round(seconds * _TICKS_PER_SECOND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Affine:
    """A step as a straight line: a constant, a price per token computed, a price per token of context.

    Parameters
    ----------
    step_s
        Seconds of any step, however small.
    token_s
        Seconds for each token computed, decode and prefill alike.
    kv_token_s
        Seconds for each token of context that those attend to.

    Raises
    ------
    ConfigError
        If a price is negative or not finite, or all are zero: a step must take time.

    Examples
    --------
    >>> Affine(step_s=0.005, token_s=50e-6).to_wire()
    {'kind': 'affine', 'step': 5000000000, 'token': 50000000, 'kv_token': 0}
    """

    step_s: float
    token_s: float = 0.0
    kv_token_s: float = 0.0

    def __post_init__(self) -> None:
        wire = self.to_wire()
        if not (wire["step"] or wire["token"]):
            raise ConfigError("step_s and token_s of an Affine must not both be 0 ps: a step must take time")

    def to_wire(self) -> dict[str, Any]:
        """Return what the engine is sent: the prices in ticks."""
        return {
            "kind": "affine",
            "step": ticks(self.step_s, "step_s"),
            "token": ticks(self.token_s, "token_s"),
            "kv_token": ticks(self.kv_token_s, "kv_token_s"),
        }

    def to_toml(self) -> str:
        """Return the model as the text of a TOML file."""
        return dump(cost_to_table(self))

    @classmethod
    def from_toml(cls, text: str) -> Affine:
        """Read what :meth:`to_toml` wrote."""
        return _only(cls, cost_from_table(parse(text, "a cost"), "a cost"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """How much of a GPU's datasheet kernels reach, and what no datasheet lists.

    The catalog has one for each GPU; its file says where each number comes from.

    Parameters
    ----------
    memory
        Share of the memory bandwidth that matrix multiplications and element-wise kernels reach.
    matmul
        Share of the 16-bit arithmetic that large matrix multiplications reach.
    attention_memory
        Share of the memory bandwidth at which attention reads its keys and values.
    attention_matmul
        Share of the arithmetic that attention reaches in prefill.
    layer_s
        Seconds of each layer that no traffic or arithmetic explains: the least time of its small kernels.
    step_s
        The same, once a step: embedding, last norm, sampler, and what the engine cannot hide.
    attention_request_s
        Seconds that attention takes for each scheduled request in each layer beyond its traffic.
    ring
        Share of the link's bandwidth (one direction) that a ring all-reduce reaches on large messages.
    ring_latency_s
        Seconds of the smallest ring all-reduce.
    one_shot
        Share of the link's bandwidth at which a rank reads its peers in a one-shot all-reduce.
    one_shot_latency_s
        Seconds of the smallest one-shot all-reduce.
    source
        Where the numbers come from, in a line.

    Raises
    ------
    ConfigError
        If a share is not above 0 and at most 1, or a time is negative.
    """

    memory: float
    matmul: float
    attention_memory: float
    attention_matmul: float
    layer_s: float
    step_s: float
    attention_request_s: float = 0.0
    ring: float = 1.0
    ring_latency_s: float = 0.0
    one_shot: float = 1.0
    one_shot_latency_s: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("memory", "matmul", "attention_memory", "attention_matmul", "ring", "one_shot"):
            _check.fraction(f"{name} of an Efficiency", getattr(self, name))
        for name in ("layer_s", "step_s", "attention_request_s", "ring_latency_s", "one_shot_latency_s"):
            _check.seconds(f"{name} of an Efficiency", getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """A step worked out from the model's shape and the GPU's figures.

    Each kernel takes ``max(bytes / bandwidth, FLOPs / arithmetic)``, both lowered to what kernels reach; a
    step is the sum over kernels and layers:

    - the four matrix multiplications of a layer (query-key-value, output, gate and up, down), each on its
      own: its weights and its tokens' activations against its arithmetic;
    - attention, one kernel for the decoding requests and one for those in prefill. They add up: where vLLM
      runs both in one launch, the measured time is above even the sum (RTX 4090: the sum is 40% low in the
      median, the longer of the two 57%; RTX PRO 6000: 26% and 49%);
    - norms, rotary positions and activation function as memory traffic of each token;
    - the LM head and the sampler for the rows that are sampled;
    - two all-reduces a layer and one after the embedding under tensor parallelism: one-shot (each rank reads
      all others) or a ring, whichever is faster; one-shot needs NVLink, or two GPUs, as in vLLM;
    - constants per step, layer and request.

    Parameters
    ----------
    efficiency
        What kernels reach of the datasheet; by default the catalog's for the GPU.

    Notes
    -----
    How far the catalog's numbers are off with nothing fitted to steps (``PYTHONPATH=tests python -m
    unit.cost.measured`` prints it where the measurements are at hand):

    - Llama-3.1-8B against LLMServingSim's measured kernels (vLLM 0.19), whole steps of 1 to 256 decodes over
      256 to 8,192 tokens of context: RTX 4090 -2.2% on average (-9 to +2%), RTX PRO 6000 -1.9% (-7 to +1%).
      Prompts of 128 to 2,048 tokens: -2.5% (-14 to +1%) and -4.0% (-12 to +4%). These two GPUs' efficiencies
      were read off single points of the same tables: this says how well the form holds between them, and is
      no prediction.
    - Llama-2-70B against Splitwise's measurements, batch 1, prompts of 128 to 8,192 tokens, from which
      nothing was taken: on 2, 4 and 8 GPUs, prompts are 24, 38 and 50% low on H100 (24, 35 and 45% on A100)
      and decode steps 28, 49 and 69% low (25, 49 and 70%). That engine is of 2023: a decode step of
      30 ms on 4 H100s is as long on 8, so most of it is overhead that later engines shed.

    Not modelled: wave and tile quantisation, power limits, decodes of uneven length, and the serial walk of a
    short chunk over a long context. Kernels for experts and sliding windows will stand beside these.

    Examples
    --------
    >>> from paceline.hardware import Gpu
    >>> from paceline.model import Model
    >>> wire = Roofline().to_wire(Model.load("llama-3.1-8b"), Gpu.load("h100-sxm"))
    >>> sum(linear["weights"] for linear in wire["linears"]) / 1e12    # seconds to read the layers' weights
    0.004839...
    """

    efficiency: Efficiency | None = None

    def __post_init__(self) -> None:
        if self.efficiency is not None and not isinstance(self.efficiency, Efficiency):
            raise ConfigError(f"efficiency of a Roofline must be an Efficiency, was {self.efficiency!r}")

    def to_wire(
        self, model: Model, gpu: Gpu, *, tensor_parallel: int = 1, kv_dtype: str = "auto"
    ) -> dict[str, Any]:
        """Return what the engine is sent: coefficients in ticks, summed over layers.

        Parameters
        ----------
        model, gpu
            What runs on what.
        tensor_parallel
            GPUs that the model is split over.
        kv_dtype
            As in vLLM; ``"auto"`` is the model's own.

        Raises
        ------
        ConfigError
            If the model cannot be split so, or the GPU's catalog entry has no efficiencies and none are
            given.
        """
        efficiency = self.efficiency or gpu.efficiency
        if efficiency is None:
            raise ConfigError(f"GPU {gpu.name!r} has no efficiency: give Roofline(efficiency=...)")
        model.check_parallel(tensor_parallel)
        return _Rank(model, gpu, efficiency, tensor_parallel, kv_dtype).wire()

    def to_toml(self) -> str:
        """Return the model as the text of a TOML file."""
        return dump(cost_to_table(self))

    @classmethod
    def from_toml(cls, text: str) -> Roofline:
        """Read what :meth:`to_toml` wrote."""
        return _only(cls, cost_from_table(parse(text, "a cost"), "a cost"))


#: Any cost model.
Cost = Affine | Roofline

C = TypeVar("C", Affine, Roofline)


def cost_to_table(cost: object) -> dict[str, Any]:
    """Return a cost model as a TOML table with its ``kind``."""
    return {"kind": type(cost).__name__.lower(), **table(cost)}


def cost_from_table(content: dict[str, Any], what: str) -> Cost:
    """Read what :func:`cost_to_table` wrote; ``what`` names the table in errors."""
    fields = {key: value for key, value in content.items() if key != "kind"}
    match content.get("kind"):
        case "affine":
            return build(Affine, fields, what)
        case "roofline":
            if "efficiency" in fields:
                fields["efficiency"] = build(Efficiency, fields["efficiency"], f"efficiency of {what}")
            return build(Roofline, fields, what)
        case kind:
            raise ConfigError(f"kind of {what} must be affine or roofline, was {kind!r}")


def _only(cls: type[C], cost: Cost) -> C:
    if not isinstance(cost, cls):
        raise ConfigError(f"kind of a cost must be {cls.__name__.lower()}, was {type(cost).__name__.lower()}")
    return cost


class _Rank:
    """One rank's share of the model on its GPU, and the coefficients that follow."""

    def __init__(
        self, model: Model, gpu: Gpu, efficiency: Efficiency, tensor_parallel: int, kv_dtype: str
    ) -> None:
        self.model = model
        self.efficiency = efficiency
        self.ranks = tensor_parallel
        self.link = gpu.link
        self.number = model.kv_dtype_bytes(model.dtype)  # bytes of a weight or an activation
        self.kv_bytes = model.kv_bytes_per_token(tensor_parallel, kv_dtype)
        self.query = model.heads // tensor_parallel * model.head_dim
        self.key = model.kv_heads_per_rank(tensor_parallel) * model.head_dim
        self.mlp = model.intermediate_size // tensor_parallel
        self.vocab = model.vocab_size / tensor_parallel
        self.bandwidth = gpu.bandwidth_bytes_per_s * efficiency.memory
        self.arithmetic = gpu.bf16_flop_per_s * efficiency.matmul
        self.attention_bandwidth = gpu.bandwidth_bytes_per_s * efficiency.attention_memory
        self.attention_arithmetic = gpu.bf16_flop_per_s * efficiency.attention_matmul
        self.ring_bandwidth = gpu.link_bytes_per_s * efficiency.ring
        self.one_shot_bandwidth = gpu.link_bytes_per_s * efficiency.one_shot

    def wire(self) -> dict[str, Any]:
        """Return the coefficients in ticks."""
        model, layers = self.model, self.model.layers
        hidden = model.hidden_size
        attention_token = layers * self._attention_token_bytes() / self.attention_bandwidth
        kv_token = self.kv_bytes / self.attention_bandwidth
        # A query against a key and the weight against a value: 2 FLOPs a number each, in every head.
        pair = 4 * layers * self.query / self.attention_arithmetic
        return {
            "kind": "roofline",
            "step": ticks(self.efficiency.step_s + layers * self.efficiency.layer_s),
            "token": ticks(self._elementwise_bytes() / self.bandwidth),
            "request": ticks(layers * self.efficiency.attention_request_s),
            "row": ticks(self._sampled_row_s()),
            "linears": [
                self._linear(hidden, self.query + 2 * self.key, layers),
                self._linear(self.query, hidden, layers),
                self._linear(hidden, 2 * self.mlp, layers),
                self._linear(self.mlp, hidden, layers),
            ],
            "lm_head": self._linear(hidden, self.vocab, 1),
            "decode_attention": {
                "request_bytes": ticks(attention_token),
                "kv_bytes": ticks(kv_token),
                "kv_flops": ticks(pair),
            },
            "prefill_attention": {
                "token_bytes": ticks(attention_token),
                "kv_bytes": ticks(kv_token),
                "pair_flops": round(pair * _TICKS_PER_SECOND * 2**_PAIR_FRACTION_BITS),
            },
            "all_reduce": self._all_reduce(),
        }

    def _linear(self, inputs: float, outputs: float, times: int) -> dict[str, int]:
        weights = inputs * outputs
        return {
            "weights": ticks(times * weights * self.number / self.bandwidth),
            "token_bytes": ticks(times * (inputs + outputs) * self.number / self.bandwidth),
            "token_flops": ticks(times * 2 * weights / self.arithmetic),
        }

    def _attention_token_bytes(self) -> float:
        """Bytes of a new token in a layer's attention: query in, output out, its KV in and to the cache."""
        new_kv = self.kv_bytes / self.model.layers
        return (2 * self.query + 2 * self.key) * self.number + new_kv

    def _elementwise_bytes(self) -> float:
        """Bytes of a token outside matrices and attention.

        Each of a layer's two norms adds the residual: two vectors in, two out. Rotary positions, and the
        norms of queries and keys, read and write both. The activation reads two widths and writes one. Once a
        step come the embedding (one in, one out) and the last norm.
        """
        hidden = self.model.hidden_size
        query_key_passes = 2 if self.model.qk_norm else 1
        layer = 2 * 4 * hidden + query_key_passes * 2 * (self.query + self.key) + 3 * self.mlp
        return (self.model.layers * layer + 2 * hidden + 4 * hidden) * self.number

    def _sampled_row_s(self) -> float:
        """Seconds to gather a row of logits from all ranks, and to sample from it.

        vLLM's sampler turns logits into 32-bit numbers (read, and 4 bytes written) and reads those.
        """
        vocab = self.model.vocab_size
        gather = vocab * self.number * (self.ranks - 1) / self.ranks / self.ring_bandwidth
        return gather + vocab * (self.number + 4 + 4) / self.bandwidth

    def _all_reduce(self) -> list[dict[str, int]]:
        """Return the ways to reduce, each as a line in the tokens, over a whole step."""
        if self.ranks == 1:
            return []
        times = 2 * self.model.layers + 1
        message = self.model.hidden_size * self.number
        lines = [
            (
                self.efficiency.ring_latency_s,
                2 * (self.ranks - 1) / self.ranks * message / self.ring_bandwidth,
            )
        ]
        # vLLM's custom_all_reduce.py: more than two GPUs without NVLink fall back to NCCL.
        if self.link == "nvlink" or self.ranks == 2:
            one_shot = (self.ranks - 1) * message / self.one_shot_bandwidth
            lines.append((self.efficiency.one_shot_latency_s, one_shot))
        return [{"fixed": ticks(times * fixed), "token": ticks(times * token)} for fixed, token in lines]
