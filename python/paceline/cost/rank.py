"""One rank's share of a model, reduced to the coefficients that the engine evaluates."""

from __future__ import annotations

from typing import Any

from paceline._clock import TICKS_PER_SECOND, ticks
from paceline.cost.all_reduce import all_reduce_ways, gather_latency_s
from paceline.cost.attention import attention_of
from paceline.cost.exchange import exchanges_of
from paceline.cost.matrices import elementwise_numbers, matrices_of
from paceline.cost.mixture import ExpertKernels
from paceline.cost.states import states_of
from paceline.hardware import Gpu
from paceline.hardware.efficiency import Efficiency, KernelEfficiency
from paceline.model import Model
from paceline.model.dtypes import MATRIX_BYTES, NORM_BYTES

__all__ = ["PAIR_FRACTION_BITS", "Rank"]

PAIR_FRACTION_BITS = 20  # as rust/core/src/cost/roofline/attention.rs


def _peak(gpu: Gpu, dtype: str) -> float:
    """Return the arithmetic with weights of a type: at 16 bits where the GPU's rate is not known."""
    rates = {"fp8": gpu.fp8_flop_per_s, "nvfp4": gpu.fp4_flop_per_s, "float32": gpu.fp32_flop_per_s}
    return rates.get(dtype) or gpu.bf16_flop_per_s


class Rank:
    """One rank's share of the model on its GPU, and the coefficients that follow."""

    def __init__(
        self,
        model: Model,
        gpu: Gpu,
        efficiency: Efficiency,
        *,
        tensor_parallel: int,
        data_parallel: int,
        pipeline_parallel: int,
        kv_dtype: str,
    ) -> None:
        self.model = model
        self.gpu = gpu
        self.efficiency = efficiency
        self.ranks = tensor_parallel
        self.data_ranks = data_parallel
        self.stages = pipeline_parallel
        self.link = gpu.link
        self.number = model.kv_dtype_bytes(model.dtype)  # bytes of an activation
        self.attention = attention_of(model, tensor_parallel, kv_dtype)
        self.vocab = model.vocab_size / tensor_parallel
        self.bandwidth = gpu.bandwidth_bytes_per_s * efficiency.memory
        self.attention_bandwidth = gpu.bandwidth_bytes_per_s * efficiency.attention_memory
        self.attention_arithmetic = gpu.bf16_flop_per_s * efficiency.attention_matmul
        self.link_bytes_per_s = gpu.link_among(tensor_parallel * data_parallel)
        self.ring_bandwidth = self.link_bytes_per_s * efficiency.ring

    def wire(self) -> dict[str, Any]:
        """Return the coefficients in ticks, without routed experts."""
        model, layers = self.model, self.model.attention_layers
        windows = model.sliding_layers
        elementwise = elementwise_numbers(model, self.attention, self.ranks)
        wire = {
            "kind": "roofline",
            # A layer with a mixer or an MLP alone has half of a layer's small kernels.
            "step": ticks(self.efficiency.step_s + model.sublayers / 2 * self.efficiency.layer_s),
            "token": ticks(elementwise * self.number / self.bandwidth),
            "request": ticks(layers * self.efficiency.attention_request_s),
            "row": ticks(self._sampled_row_s()),
            "linears": self._linears(),
            "lm_head": self._linear(model.hidden_size, self.vocab, 1, model.dtype),
            "decode_attention": self._decode(layers - windows),
            "prefill_attention": self._prefill(layers - windows),
            "all_reduce": self._all_reduce(),
        }
        exchange = self._exchange()
        if exchange:
            wire["exchange"] = exchange
        recurrent = self._recurrent()
        if recurrent:
            wire["recurrent"] = recurrent
        if windows:
            wire["windowed"] = {
                "tokens": model.sliding_window,
                "decode": self._decode(windows),
                "prefill": self._prefill(windows),
            }
        return wire

    def _decode(self, layers: int) -> dict[str, int]:
        attention = self.attention
        return {
            "request_bytes": ticks(layers * attention.decode_token_bytes / self.attention_bandwidth),
            "kv_bytes": ticks(layers * attention.kv_bytes / self.attention_bandwidth),
            "kv_flops": ticks(layers * attention.decode_pair_flops / self.attention_arithmetic),
        }

    def _prefill(self, layers: int) -> dict[str, int]:
        attention = self.attention
        pair = layers * attention.prefill_pair_flops / self.attention_arithmetic
        return {
            "token_bytes": ticks(layers * attention.prefill_token_bytes / self.attention_bandwidth),
            "kv_bytes": ticks(layers * attention.prefill_kv_bytes / self.attention_bandwidth),
            "pair_flops": round(pair * TICKS_PER_SECOND * 2**PAIR_FRACTION_BITS),
        }

    def _recurrent(self) -> dict[str, int]:
        """Return the layers with states, at attention's shares of bandwidth and arithmetic."""
        states = states_of(self.model, self.ranks)
        if states is None:
            return {}
        numbers = {"decode": states.decode_numbers, "prefill": states.prefill_numbers}
        seconds = {
            side: states.layers * count * self.number / self.attention_bandwidth
            for side, count in numbers.items()
        }
        state = states.layers * 2 * states.state_bytes / self.attention_bandwidth
        decode = states.layers * states.decode_flops / self.attention_arithmetic
        return {
            "request_decodes": ticks(max(state + seconds["decode"], decode)),
            "request_bytes": ticks(state),
            "token_bytes": ticks(seconds["prefill"]),
            "token_flops": ticks(states.layers * states.prefill_flops / self.attention_arithmetic),
        }

    def _linears(self) -> list[dict[str, int]]:
        """Return the matrices that every token passes: attention's, dense MLPs, shared experts, routers."""
        return [self._linear(*matrix) for matrix in matrices_of(self.model, self.attention, self.ranks)]

    def _linear(self, inputs: float, outputs: float, times: int, dtype: str) -> dict[str, int]:
        weights = inputs * outputs
        reached = self.efficiency.of_matrices(dtype)
        bandwidth = self.gpu.bandwidth_bytes_per_s * reached.memory
        arithmetic = _peak(self.gpu, dtype) * reached.matmul
        return {
            "weights": ticks(times * (reached.kernel_s + weights * MATRIX_BYTES[dtype] / bandwidth)),
            "token_bytes": ticks(times * (inputs + outputs) * self.number / bandwidth),
            "token_flops": ticks(times * 2 * weights / arithmetic),
        }

    def experts(self, dtype: str) -> ExpertKernels:
        """Return how fast routed experts with weights of a type are."""
        efficiency = self.efficiency
        own = efficiency.of_experts(dtype)
        reached = own or KernelEfficiency(
            memory=efficiency.experts_memory or efficiency.memory,
            matmul=efficiency.experts_matmul or efficiency.matmul,
        )
        return ExpertKernels(
            bandwidth=self.gpu.bandwidth_bytes_per_s * reached.memory,
            arithmetic=_peak(self.gpu, dtype) * reached.matmul,
            layer_s=reached.kernel_s,
            add=own is not None,
        )

    def _sampled_row_s(self) -> float:
        """Seconds to gather a row of logits from all ranks, and to sample from it.

        vLLM's sampler turns logits into 32-bit numbers (read, and 4 bytes written) and reads those.
        """
        vocab = self.model.vocab_size
        gather = vocab * self.number * (self.ranks - 1) / self.ranks / self.ring_bandwidth
        return gather + vocab * (self.number + 4 + 4) / self.bandwidth

    def _all_reduce(self) -> list[dict[str, int]]:
        """Return the ways to reduce, each as a line in the tokens, over a whole step."""
        norms = self.model.norm_reductions
        times = self.model.sublayers + 1 + norms
        sent = (times - norms) * self.model.hidden_size * self.number + norms * NORM_BYTES
        ways = all_reduce_ways(
            self.efficiency, ranks=self.ranks, link=self.link, link_bytes_per_s=self.link_bytes_per_s
        )
        return [
            {"fixed": ticks(times * way.latency_s), "token": ticks(sent * way.s_per_byte)} for way in ways
        ]

    def _exchange(self) -> list[dict[str, int]]:
        """Return the other messages, each as a line in the tokens, over a whole step.

        Each has the latency of NCCL's smallest gather over the ranks that take part, and the bandwidth of its
        ring on large messages.
        """
        bandwidth = self.ring_bandwidth
        sharing = self.data_ranks if self.data_ranks > 1 else self.ranks
        fixed = gather_latency_s(self.efficiency, ranks=sharing, link=self.link)
        return [
            {"fixed": ticks(of.times * fixed), "token": ticks(of.times * of.sent_bytes / bandwidth)}
            for of in exchanges_of(
                self.model, ranks=self.ranks, data_ranks=self.data_ranks, stages=self.stages
            )
        ]
