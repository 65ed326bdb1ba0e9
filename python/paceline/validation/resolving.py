"""Names of measured runs, found in the catalogs."""

from __future__ import annotations

import re

from paceline.errors import ConfigError
from paceline.hardware import Gpu, gpu_names
from paceline.kernels.shape import MIXTURES, Shape
from paceline.model import Model, model_names
from paceline.validation.folder import MeasuredRun

__all__ = ["find_gpu", "find_shape", "usable_blocks"]

# What is left for KV of a share of the memory, besides weights: activations of the dummy run and what lies
# outside PyTorch, as for the dense models of paceline.memory.
_OTHER_BYTES = 3 * 2**30


def _plain(name: str) -> str:
    """Return a model's name without its owner, case and what marks a tuned variant."""
    name = name.rsplit("/", maxsplit=1)[-1].lower().replace("meta-", "")
    return re.sub(r"-(instruct|chat|hf|base|it|fp8|2507|v0\.1)(?=-|$)", "", name)


def find_model(name: str) -> Model | None:
    """Return the catalog's model for a Hugging Face name, if it has one."""
    known = {_plain(model): model for model in model_names()}
    found = known.get(_plain(name))
    return None if found is None else Model.load(found)


def find_shape(name: str) -> Shape:
    """Return the shape of a model by its Hugging Face name.

    Raises
    ------
    ConfigError
        If it is not known.

    Examples
    --------
    >>> find_shape("meta-llama/Llama-3.1-8B").layers
    32
    >>> find_shape("Qwen/Qwen3-30B-A3B-Instruct-2507").experts
    128
    """
    model = find_model(name)
    if model is not None:
        return Shape.of(model)
    if _plain(name) in MIXTURES:
        return MIXTURES[_plain(name)]
    there = ", ".join(sorted([*model_names(), *MIXTURES]))
    raise ConfigError(f"model of a measured run must be one of {there}, was {name!r}")


def find_gpu(device: str) -> Gpu:
    """Return the catalog's GPU for what its driver calls it.

    Raises
    ------
    ConfigError
        If it is not known.

    Examples
    --------
    >>> find_gpu("NVIDIA GeForce RTX 4090").name
    'rtx-4090'
    """
    wanted = device.lower()
    for name in gpu_names():
        gpu = Gpu.load(name)
        if gpu.device.lower() == wanted or name.replace("-", "") == re.sub(r"[^a-z0-9]", "", wanted):
            return gpu
    raise ConfigError(f"GPU of a measured run must be one of the catalog's, was {device!r}")


def usable_blocks(run: MeasuredRun, device: str) -> int:
    """Return KV blocks of a rank as vLLM counts them: the run's, else what its memory holds.

    Dense models of the catalog go by :mod:`paceline.memory`. For others the weights and three GiB are taken
    off, which is good enough for a run that memory does not limit; one that it does should say.
    """
    if run.num_blocks is not None:
        return run.num_blocks
    gpu = find_gpu(device)
    model = find_model(run.model)
    if model is not None:
        from paceline.memory import kv_memory

        memory = kv_memory(
            model,
            gpu,
            tensor_parallel=run.tensor_parallel,
            block_tokens=run.block_tokens,
            gpu_memory_utilization=run.gpu_memory_utilization,
            max_num_batched_tokens=run.max_num_batched_tokens,
            max_num_seqs=run.max_num_seqs,
            kv_dtype=run.kv_dtype,
        )
        return memory.blocks
    shape = find_shape(run.model)
    ranks = run.tensor_parallel * (run.data_parallel if run.expert_parallel else 1)
    number = 1 if run.kv_dtype.startswith("fp8") else shape.dtype_bytes
    heads = max(shape.kv_heads // run.tensor_parallel, 1)
    block = 2 * shape.layers * heads * shape.head_dim * number * run.block_tokens
    free = gpu.memory_bytes * run.gpu_memory_utilization - shape.parameters * shape.dtype_bytes / ranks
    blocks = int((free - _OTHER_BYTES) // block)
    if blocks < 2:
        raise ConfigError(
            f"{run.model} does not fit on {run.tensor_parallel} x {gpu.name}: give num_gpu_blocks"
        )
    return blocks
