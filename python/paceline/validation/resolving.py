"""Names of measured runs, found in the catalogs."""

from __future__ import annotations

import re

from paceline.errors import ConfigError
from paceline.hardware import Gpu, gpu_names
from paceline.kernels.shape import Shape
from paceline.memory import kv_memory
from paceline.model import Model, model_names
from paceline.validation.folder import MeasuredRun

__all__ = ["find_gpu", "find_shape", "usable_blocks"]


def _plain(name: str) -> str:
    """Return a model's name without its owner, case and what marks a tuned variant."""
    name = name.rsplit("/", maxsplit=1)[-1].lower().replace("meta-", "")
    return re.sub(r"-(instruct|chat|hf|base|it|fp8|2507|v0\.1)(?=-|$)", "", name)


def _find_model(name: str) -> Model:
    """Return the catalog's model for a Hugging Face name."""
    known = {_plain(model): model for model in model_names()}
    if _plain(name) not in known:
        there = ", ".join(sorted(known.values()))
        raise ConfigError(f"model of a measured run must be one of {there}, was {name!r}")
    return Model.load(known[_plain(name)])


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
    return Shape.of(_find_model(name))


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
    """Return KV blocks of a rank as vLLM counts them: the run's, else by :mod:`paceline.memory`.

    Raises
    ------
    ConfigError
        If the run does not say, and model or GPU are not known or the model does not fit.
    """
    if run.num_blocks is not None:
        return run.num_blocks
    memory = kv_memory(
        _find_model(run.model),
        gpu := find_gpu(device),
        tensor_parallel=run.tensor_parallel,
        expert_ranks=run.tensor_parallel * run.data_parallel if run.expert_parallel else None,
        block_tokens=run.block_tokens,
        gpu_memory_utilization=run.gpu_memory_utilization,
        max_num_batched_tokens=run.max_num_batched_tokens,
        max_num_seqs=run.max_num_seqs,
        kv_dtype=run.kv_dtype,
    )
    if memory.blocks < 2:
        raise ConfigError(
            f"{run.model} does not fit on {run.tensor_parallel} x {gpu.name}: give num_gpu_blocks"
        )
    return memory.blocks
