"""A measured run: what arrived, what was measured, and the engine's settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError
from paceline.kernels import Link
from paceline.validation.comparison import Latencies

__all__ = ["MeasuredRun", "read_run"]

_COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens", "first_token_s", "last_token_s")
#: vLLM's own defaults of what engine.json leaves out (0.19, API server on a GPU below 70 GiB).
_DEFAULTS = {"max_num_seqs": 256, "max_num_batched_tokens": 2048}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
@typed_fields()
class MeasuredRun:
    """A folder of ``requests.parquet``, ``engine.json`` and ``profile/``.

    Parameters
    ----------
    folder
        Where it is.
    model
        As the engine was told: a Hugging Face name.
    requests
        As in the file, by arrival.
    tensor_parallel, data_parallel, expert_parallel
        How the model is split.
    max_num_seqs, max_num_batched_tokens, max_model_len
        The scheduler's limits; None: the model's longest.
    block_tokens
        Tokens of a KV block.
    num_blocks
        KV blocks of a rank as vLLM counted them; None where the folder does not say.
    gpu_memory_utilization
        Share of the GPU's memory that the engine might use.
    kv_dtype
        Numbers of the KV cache.
    prefix_caching
        Whether it was on: it was in all runs, unless the settings say otherwise.
    link
        Between the ranks; None where there is one.
    """

    folder: Path
    model: str
    requests: pl.DataFrame
    tensor_parallel: int
    data_parallel: int
    expert_parallel: bool
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int | None
    block_tokens: int
    num_blocks: int | None
    gpu_memory_utilization: float
    kv_dtype: str
    prefix_caching: bool
    link: Link | None

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @property
    def profile(self) -> Path:
        """The kernel profile of one rank."""
        return self.folder / "profile"

    def measured(self) -> Latencies:
        """Return what was measured."""
        arrival, first, last = (
            self.requests[column].to_numpy().astype(np.float64)
            for column in ("arrival_s", "first_token_s", "last_token_s")
        )
        return Latencies(arrival, first, last, self.requests["output_tokens"].to_numpy().astype(np.int64))


@typed()
def read_run(folder: str | PathLike[str]) -> MeasuredRun:
    """Read a measured run.

    Parameters
    ----------
    folder
        With the files that :class:`MeasuredRun` names.

    Returns
    -------
    MeasuredRun

    Raises
    ------
    ConfigError
        If a file, a column or a setting is missing, or a setting is not what it has to be.
    """
    folder = Path(folder)
    for name in ("requests.parquet", "engine.json"):
        if not (folder / name).is_file():
            raise ConfigError(f"a measured run must have {name}, was not in {folder}")
    path = folder / "requests.parquet"
    requests = pl.read_parquet(path)
    missing = [column for column in _COLUMNS if column not in requests.columns]
    if missing:
        raise ConfigError(f"{path} must have the columns {', '.join(_COLUMNS)}, lacked {', '.join(missing)}")
    path = folder / "engine.json"
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path} must be JSON: {error}") from error
    engine = _table(settings, "engine_kwargs", path)
    cache = _table(settings, "kv_cache", path)
    model = settings.get("model") or engine.get("model")
    if not isinstance(model, str):
        raise ConfigError(f"model of {path} must be a name, was {model!r}")

    def count(table: Mapping[str, Any], name: str, default: int | None) -> Any:  # noqa: ANN401 - as wide as its default
        value = table.get(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} of {path} must be a whole number above 0, was {value!r}")
        return value

    caching = cache.get("enable_prefix_caching", engine.get("enable_prefix_caching"))
    return MeasuredRun(
        folder=folder,
        model=model,
        requests=requests.sort("arrival_s", maintain_order=True),
        tensor_parallel=count(engine, "tensor_parallel_size", 1),
        data_parallel=count(engine, "data_parallel_size", 1),
        expert_parallel=bool(engine.get("enable_expert_parallel", False)),
        max_num_seqs=count(engine, "max_num_seqs", _DEFAULTS["max_num_seqs"]),
        max_num_batched_tokens=count(engine, "max_num_batched_tokens", _DEFAULTS["max_num_batched_tokens"]),
        max_model_len=count(engine, "max_model_len", None),
        block_tokens=count(cache, "block_size", 16),
        num_blocks=count(cache, "num_gpu_blocks", None),
        gpu_memory_utilization=float(
            cache.get("gpu_memory_utilization") or engine.get("gpu_memory_utilization") or 0.9
        ),
        kv_dtype=str(engine.get("kv_cache_dtype") or "auto"),
        prefix_caching=True if caching is None else bool(caching),
        link=_link(settings.get("link") or engine.get("link"), path),
    )


def _table(settings: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    value = settings.get(name) or {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} of {path} must be a table, was {value!r}")
    return value


def _link(link: Mapping[str, Any] | None, path: Path) -> Link | None:
    if link is None:
        return None
    try:
        bandwidth, latency = 1e9 * link["bandwidth_gb_per_s"], 1e-6 * link.get("latency_us", 0.0)
    except (KeyError, TypeError) as error:
        raise ConfigError(
            f"link of {path} must have bandwidth_gb_per_s and latency_us, was {link!r}"
        ) from error
    return Link(bytes_per_s=bandwidth, latency_s=latency)
