"""The share of a GPU's figures that kernels reach."""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline import _check
from paceline._arguments import typed

__all__ = ["Efficiency", "KernelEfficiency", "fitted_to"]


def fitted_to(model: str, gpu: str, tensor_parallel: int) -> str:
    """Return the name of a model on its GPUs.

    Examples
    --------
    >>> fitted_to("qwen3-30b-a3b", "h100-sxm", 2)
    'qwen3-30b-a3b on 2 x h100-sxm'
    """
    return f"{model} on {tensor_parallel} x {gpu}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEfficiency:
    """The share of a GPU's datasheet that kernels with weights of one type reach.

    Parameters
    ----------
    memory
        Share of the memory bandwidth.
    matmul
        Share of the arithmetic: at 8 bits for fp8 and at 4 for nvfp4 if the GPU can, else at 16.
    kernel_s
        Seconds of each kernel beyond its traffic and arithmetic; of experts, of all kernels of a layer's.

    Raises
    ------
    ConfigError
        If a share is not above 0 and at most 1, or the time is negative.
    """

    memory: float
    matmul: float
    kernel_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("memory", "matmul"):
            _check.fraction(f"{name} of a KernelEfficiency", getattr(self, name))
        _check.seconds("kernel_s of a KernelEfficiency", self.kernel_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """The share of a GPU's datasheet that kernels reach, and times that no datasheet lists.

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
        Seconds of each layer that no traffic or arithmetic explains: the least times of attention and of its
        small kernels.
    step_s
        The same, once a step: embedding, last norm, sampler, and work of the engine that is not overlapped.
    attention_request_s
        Seconds that attention takes for each scheduled request in each layer beyond its traffic.
    ring
        Share of the link's bandwidth (one direction) that NCCL's ring reaches on large messages.
    ring_latency_s
        Seconds of the smallest all-reduce by NCCL for any number of ranks, if it was measured on an engine:
        there is then one ring and no tree. None: NCCL's own latencies by ranks, link and protocol
        (:mod:`paceline.cost.all_reduce`).
    one_shot
        Share of the link's bandwidth at which a rank reads its peers in vLLM's own all-reduce.
    one_shot_latency_s
        Seconds of the smallest one-shot all-reduce of that kernel; a two-shot all-reduce takes twice that.
    matrix_s
        Seconds of each matrix multiplication beyond its traffic and arithmetic.
    fp8, nvfp4
        Of multiplications with weights of these types; ``None``: ``memory``, ``matmul`` and ``matrix_s``.
    experts_memory, experts_matmul
        As ``memory`` and ``matmul``, of the kernel that runs routed experts; ``None`` for the same.
    experts_bfloat16, experts_fp8, experts_mxfp4, experts_nvfp4
        Of routed experts by the type of their weights, unless ``experts_memory`` or ``experts_matmul`` says
        otherwise. Each expert has few tokens, so their traffic and their arithmetic add up; without a value
        for the type the longer counts.
    source
        Where the numbers come from, in a line.
    fitted_to
        The model and GPUs that the numbers were fitted to, as :func:`fitted_to` writes them; empty if they
        were not fitted. Results of other models and GPUs say so (``result.totals().borrowed_fits``).

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
    ring_latency_s: float | None = None
    one_shot: float = 1.0
    one_shot_latency_s: float = 0.0
    matrix_s: float = 0.0
    fp8: KernelEfficiency | None = field(default=None, metadata={"table": KernelEfficiency})
    nvfp4: KernelEfficiency | None = field(default=None, metadata={"table": KernelEfficiency})
    experts_memory: float | None = None
    experts_matmul: float | None = None
    experts_bfloat16: KernelEfficiency | None = field(default=None, metadata={"table": KernelEfficiency})
    experts_fp8: KernelEfficiency | None = field(default=None, metadata={"table": KernelEfficiency})
    experts_mxfp4: KernelEfficiency | None = field(default=None, metadata={"table": KernelEfficiency})
    experts_nvfp4: KernelEfficiency | None = field(default=None, metadata={"table": KernelEfficiency})
    source: str = ""
    fitted_to: str = ""

    def __post_init__(self) -> None:
        for name in ("memory", "matmul", "attention_memory", "attention_matmul", "ring", "one_shot"):
            _check.fraction(f"{name} of an Efficiency", getattr(self, name))
        for name in ("experts_memory", "experts_matmul"):
            if getattr(self, name) is not None:
                _check.fraction(f"{name} of an Efficiency", getattr(self, name))
        if self.ring_latency_s is not None:
            _check.seconds("ring_latency_s of an Efficiency", self.ring_latency_s)
        for name in ("layer_s", "step_s", "attention_request_s", "one_shot_latency_s", "matrix_s"):
            _check.seconds(f"{name} of an Efficiency", getattr(self, name))
        kinds = ("fp8", "nvfp4", "experts_bfloat16", "experts_fp8", "experts_mxfp4", "experts_nvfp4")
        for name in kinds:
            what, right = f"{name} of an Efficiency", "a KernelEfficiency or None"
            _check.instance_of(what, getattr(self, name), (KernelEfficiency, type(None)), right)

    @typed()
    def of_matrices(self, dtype: str) -> KernelEfficiency:
        """Return what multiplications with weights of a type reach.

        Examples
        --------
        >>> known = Efficiency(
        ...     memory=0.8, matmul=0.7, attention_memory=0.8, attention_matmul=0.5, layer_s=0.0, step_s=0.0,
        ...     matrix_s=4e-6, fp8=KernelEfficiency(memory=0.6, matmul=0.5, kernel_s=7e-6),
        ... )
        >>> [known.of_matrices(dtype).memory for dtype in ("bfloat16", "fp8")]
        [0.8, 0.6]
        """
        known = {"fp8": self.fp8, "nvfp4": self.nvfp4}.get(dtype)
        return known or KernelEfficiency(memory=self.memory, matmul=self.matmul, kernel_s=self.matrix_s)

    @typed()
    def of_experts(self, dtype: str) -> KernelEfficiency | None:
        """Return what routed experts with weights of a type reach; None where no value is for the type."""
        if self.experts_memory is not None or self.experts_matmul is not None:
            return None
        known = {"fp8": self.experts_fp8, "mxfp4": self.experts_mxfp4, "nvfp4": self.experts_nvfp4}
        return known.get(dtype, self.experts_bfloat16)
