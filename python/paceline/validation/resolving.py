"""Names of measured runs, found in the catalogs."""

from __future__ import annotations

import re
from pathlib import Path

from paceline._toml import close_matches
from paceline.deployment import kv_memory
from paceline.errors import ConfigError
from paceline.hardware import Gpu, gpu_names
from paceline.model import Model, model_names
from paceline.trace.opening import content
from paceline.validation.folder import MeasuredRun

__all__ = ["find_gpu", "find_model", "usable_blocks"]


def _plain(name: str) -> str:
    """Return a model's name without its owner, case and what marks a tuned variant."""
    name = name.rstrip("/").rsplit("/", maxsplit=1)[-1].lower().replace("meta-", "")
    return re.sub(r"-(instruct|chat|hf|base|it|fp8|\d{4}|v0\.1)(?=-|$)", "", name)


def find_model(name: str, folder: Path | None = None) -> Model:
    """Return a run's model: what its folder says, else the catalog's of that Hugging Face name.

    Parameters
    ----------
    name
        Such as ``meta-llama/Llama-3.1-8B``.
    folder
        Of the run: a ``config.json`` in it or in its ``profile`` is the model's, as Hugging Face has it.

    Raises
    ------
    ConfigError
        If it is not known.

    Examples
    --------
    >>> find_model("meta-llama/Llama-3.1-8B").layers
    32
    >>> find_model("Qwen/Qwen3-30B-A3B-Instruct-2507").name
    'qwen3-30b-a3b'
    """
    for place in () if folder is None else (folder, folder / "profile"):
        config = place / "config.json"
        if config.is_file() and b"model_type" in content(config, error=ConfigError):
            return Model.from_hf_config(config, name=name)
    known = {_plain(model): model for model in model_names()}
    if _plain(name) not in known:
        close = close_matches(_plain(name), known)
        raise ConfigError(
            f"model of a measured run must be one of the catalog's, or its Hugging Face config.json must lie "
            f"in the folder, was {name!r}{close}"
        )
    return Model.load(known[_plain(name)])


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
    """Return the KV blocks of a rank as vLLM counts them: the run's, else those of the memory rule.

    Raises
    ------
    ConfigError
        If the run does not say, and model or GPU are not known or the model does not fit.
    """
    if run.num_blocks is not None:
        return run.num_blocks
    memory = kv_memory(
        model := find_model(run.model, run.folder),
        gpu := find_gpu(device),
        tensor_parallel=run.tensor_parallel,
        expert_ranks=_expert_ranks(run, model),
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


def _expert_ranks(run: MeasuredRun, model: Model) -> int | None:
    """Return the ranks that share the experts, dealt out or split: vLLM splits them over all ranks alike."""
    ranks = run.tensor_parallel * run.data_parallel
    return ranks if model.experts is not None and (run.expert_parallel or run.data_parallel > 1) else None
