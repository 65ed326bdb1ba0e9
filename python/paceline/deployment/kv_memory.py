"""The number of KV blocks that fit: vLLM's rule, with estimates of what vLLM measures.

vLLM (0.33, ``gpu_worker.py::determine_available_memory``) takes a share of the GPU's memory, subtracts the
weights, the peak of a dummy run and memory outside PyTorch, and divides the rest into blocks. Weights are
exact here. vLLM measures the other two; this module estimates them:

- *Peak of the dummy run*, the larger of two moments. In the widest layer, of ``max_num_batched_tokens``
  tokens: residual and hidden state, the gated MLP's input pair and its product. At the end, of
  ``max_num_seqs`` rows of the vocabulary: logits in 16 and in 32 bits, their sorted copy with 64-bit
  indices, probabilities, running sums and a mask, 27 bytes an entry (``v1/sample`` with top-k and top-p, as
  the dummy run asks for).
- *Outside PyTorch*: 0.16 GiB, as vLLM logs it on an H100 (vllm-project/vllm pull request 12126). More ranks
  add NCCL's buffers, which are not counted.

With experts, the widest layer holds for each of a token's experts the larger of input pair and output, which
share memory, and the product (``fused_moe.py``), or the dense or shared MLP if that is wider.

Where some layers have a *sliding window*, a block is charged for the other layers alone, and the windows are
set aside before memory is divided into blocks: for each of ``max_num_seqs`` sequences the blocks that a
window can touch, and room for one step's tokens before they slide out. vLLM's pool shares those blocks
between sequences, so with fewer sequences the rule gives too few blocks (gpt-oss-20b: 3.5 MiB a sequence). If
all layers slide, blocks are charged for whole contexts.

Of *hybrid models*, states and keys and values share blocks of one size
(:func:`paceline.deployment.pages.pages_of`). For Qwen3-Next-80B-A3B on two H200, vLLM 0.10.2 logged blocks of
544 tokens, and that 14.77 requests of 262,144 tokens fit into 44.59 GiB: 7,162 blocks, of which each takes
482 and three for its states.

Under *pipeline parallelism* the rule is applied to each stage, with the tables that it has and, in all but
the last, without the sampler; all stages then have the blocks of the one with the fewest (vLLM,
``v1/core/kv_cache_utils.py::get_kv_cache_configs``).

For Llama-3.1-8B on an RTX 4090, vLLM 0.19 logged 2,588 blocks of 16 (2,048 tokens, 256 sequences, 0.9 of the
memory); the rule gives 2,665, 3.0% more. Near saturation, the number of blocks matters most for the accuracy
of a replay: if the engine's log is at hand, set ``num_blocks`` from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.deployment.pages import pages_of
from paceline.hardware import Gpu
from paceline.model import DTYPE_BYTES, Model, Stage, stages

__all__ = ["KvMemory", "kv_memory"]

_OUTSIDE_PYTORCH_BYTES = round(0.16 * 2**30)
_SAMPLER_BYTES_PER_LOGIT = 2 + 4 + (4 + 8) + 4 + 4 + 1


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class KvMemory:
    """How the memory of one GPU is divided.

    Parameters
    ----------
    requested_bytes
        The share that the engine may use.
    weight_bytes
        Weights of one rank.
    activation_bytes
        Peak of the dummy run, estimated.
    other_bytes
        Outside PyTorch, estimated.
    block_bytes
        One block, over all layers but those with a window; of a hybrid model, over the layers of a group.
    window_bytes
        Set aside for the layers with a window.
    """

    requested_bytes: int
    weight_bytes: int
    activation_bytes: int
    other_bytes: int
    block_bytes: int
    window_bytes: int = 0

    @property
    def kv_bytes(self) -> int:
        """Bytes left for blocks; negative if the rest does not fit."""
        taken = self.weight_bytes + self.activation_bytes + self.other_bytes + self.window_bytes
        return self.requested_bytes - taken

    @property
    def blocks(self) -> int:
        """Blocks as vLLM counts them, the null block among them; 0 if no memory is left."""
        return max(0, self.kv_bytes // self.block_bytes)


@typed()
def kv_memory(
    model: Model,
    gpu: Gpu,
    *,
    tensor_parallel: int = 1,
    block_tokens: int = 16,
    gpu_memory_utilization: float = 0.92,
    max_num_batched_tokens: int = 2048,
    max_num_seqs: int = 256,
    kv_dtype: str = "auto",
    expert_ranks: int | None = None,
    pipeline_parallel: int = 1,
) -> KvMemory:
    """Divide the memory of one GPU as vLLM does.

    Parameters
    ----------
    model, gpu
        The model, and the GPU that it runs on.
    tensor_parallel
        GPUs that the model is split over.
    block_tokens
        Tokens in a block; of a hybrid model the least.
    gpu_memory_utilization
        Share of the memory that the engine may use.
    max_num_batched_tokens, max_num_seqs
        The scheduler's limits, which size the dummy run.
    kv_dtype
        As in vLLM; ``"auto"`` is the model's own.
    expert_ranks
        Ranks that whole experts are distributed over (those of tensor times those of data parallelism); by
        default experts are split over the tensor-parallel ranks.
    pipeline_parallel
        Stages that the layers are divided into. The result is of a GPU of the stage with the fewest blocks.

    Raises
    ------
    ConfigError
        If a value is out of range or the model cannot be split so.

    Examples
    --------
    >>> memory = kv_memory(Model.load("llama-3.1-8b"), Gpu.load("rtx-4090"), gpu_memory_utilization=0.9)
    >>> memory.block_bytes
    2097152
    """
    _check.count("block_tokens", block_tokens, most=2**32)
    _check.fraction("gpu_memory_utilization", gpu_memory_utilization)
    _check.count("max_num_batched_tokens", max_num_batched_tokens, most=2**32)
    _check.count("max_num_seqs", max_num_seqs, most=2**32)
    model.check_parallel(tensor_parallel, expert_ranks=expert_ranks)

    def divide(stage: Stage) -> KvMemory:
        part = stage.part
        number = DTYPE_BYTES[part.dtype]
        width = 2 * part.hidden_size + _widest_mlp(part, tensor_parallel, expert_ranks)
        activations = max_num_batched_tokens * width * number
        if stage.last:
            rows = min(max_num_seqs, max_num_batched_tokens)
            sampler = rows * part.vocab_size * _SAMPLER_BYTES_PER_LOGIT
            activations = max(activations, max_num_batched_tokens * part.hidden_size * number + sampler)
        return KvMemory(
            requested_bytes=int(gpu.memory_bytes * gpu_memory_utilization),
            weight_bytes=stage.weight_bytes(tensor_parallel, expert_ranks=expert_ranks),
            activation_bytes=activations,
            other_bytes=_OUTSIDE_PYTORCH_BYTES,
            block_bytes=pages_of(
                part, tensor_parallel=tensor_parallel, block_tokens=block_tokens, kv_dtype=kv_dtype
            ).block_bytes,
            window_bytes=_window_tokens(part, block_tokens, max_num_batched_tokens, max_num_seqs)
            * part.window_layers
            * part.kv_layer_bytes(tensor_parallel, kv_dtype),
        )

    # Negative if the weights do not fit, by what they lack.
    return min(
        map(divide, stages(model, pipeline_parallel)), key=lambda memory: memory.kv_bytes / memory.block_bytes
    )


def _widest_mlp(model: Model, ranks: int, expert_ranks: int | None) -> int:
    """Return the numbers that a token has at once in the widest of the model's MLPs."""
    dense = 3 * model.intermediate_size // ranks if model.dense_layers else 0
    experts = model.experts
    if experts is None:
        return dense
    width = experts.intermediate_size if expert_ranks else experts.intermediate_size // ranks
    routed = experts.per_token * (max(2 * width, model.hidden_size) + width)
    return max(dense, routed, 3 * experts.shared_intermediate_size // ranks)


def _window_tokens(model: Model, block_tokens: int, batched: int, sequences: int) -> int:
    """Return the tokens that layers with a window hold at most, whole blocks of each sequence."""
    if not model.window_layers or model.sliding_window is None:
        return 0
    # A window need not start at the start of a block, so it touches one more.
    blocks = -(-model.sliding_window // block_tokens) + 1
    return sequences * blocks * block_tokens + batched
