"""A measured run: its requests, their measured times, and the engine's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._parquet import read_foreign
from paceline.errors import ConfigError
from paceline.kernels import Link
from paceline.kernels.typed import Kind, hold_to, without_nulls
from paceline.trace.opening import content
from paceline.validation.comparison import Latencies

__all__ = ["MeasuredRun", "read_run"]

_COLUMNS: dict[str, Kind] = {
    "arrival_s": "number",
    "prompt_tokens": "count",
    "output_tokens": "count",
    "first_token_s": "number",
    "last_token_s": "number",
}
#: What a request must have; one that failed has no tokens and no times of them.
_NEEDED = ("arrival_s", "prompt_tokens", "output_tokens")
#: What engines count in: 32 bits with a sign.
_MOST = 2**31
#: Far above what engines have; the memory of a replay grows with it.
_BLOCK_TOKENS = 2**16
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
        The name that the engine was given: a Hugging Face name.
    requests
        As in the file, by arrival.
    tensor_parallel, data_parallel, expert_parallel
        How the model is split.
    max_num_seqs, max_num_batched_tokens, max_model_len
        The scheduler's limits; None: the model's longest.
    block_tokens
        Tokens of a KV block.
    num_blocks
        KV blocks of a rank as vLLM counted them; None if the folder does not say.
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
    requests = _requests(path)
    path = folder / "engine.json"
    try:
        settings = msgspec.json.decode(content(path, error=ConfigError), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error) or "it is nested too deeply"
        raise ConfigError(f"{path} must be a JSON object in UTF-8: {reason}") from error
    engine = _table(settings, "engine_kwargs", path)
    cache = _table(settings, "kv_cache", path)
    model = settings.get("model") or engine.get("model")
    if not isinstance(model, str):
        raise ConfigError(f"model of {path} must be a name, was {_shown(model)}")

    def count(table: Mapping[str, Any], name: str, default: int | None, most: int = _MOST - 1) -> Any:  # noqa: ANN401 - as wide as its default
        value = table.get(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise ConfigError(
                f"{name} of {path} must be a whole number from 1 to {most:,}, was {_shown(value)}"
            )
        return value

    def flag(table: Mapping[str, Any], name: str) -> bool | None:
        value = table.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise ConfigError(f"{name} of {path} must be true or false, was {_shown(value)}")

    caching = flag(cache, "enable_prefix_caching")
    caching = flag(engine, "enable_prefix_caching") if caching is None else caching
    share = cache.get("gpu_memory_utilization") or engine.get("gpu_memory_utilization") or 0.9
    _check.fraction(f"gpu_memory_utilization of {path}", share)
    kv_dtype = engine.get("kv_cache_dtype") or "auto"
    if not isinstance(kv_dtype, str):
        raise ConfigError(f"kv_cache_dtype of {path} must be a name, was {_shown(kv_dtype)}")
    return MeasuredRun(
        folder=folder,
        model=model,
        requests=requests.sort("arrival_s", maintain_order=True),
        tensor_parallel=count(engine, "tensor_parallel_size", 1),
        data_parallel=count(engine, "data_parallel_size", 1),
        expert_parallel=flag(engine, "enable_expert_parallel") or False,
        max_num_seqs=count(engine, "max_num_seqs", _DEFAULTS["max_num_seqs"]),
        max_num_batched_tokens=count(engine, "max_num_batched_tokens", _DEFAULTS["max_num_batched_tokens"]),
        max_model_len=count(engine, "max_model_len", None),
        block_tokens=count(cache, "block_size", 16, _BLOCK_TOKENS),
        num_blocks=count(cache, "num_gpu_blocks", None),
        gpu_memory_utilization=float(share),
        kv_dtype=kv_dtype,
        prefix_caching=True if caching is None else caching,
        link=_link(settings.get("link") or engine.get("link"), path),
    )


def _table(settings: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    value = settings.get(name) or {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} of {path} must be a JSON object, was {_shown(value)}")
    return value


def _link(link: object, path: Path) -> Link | None:
    if link is None:
        return None
    if not isinstance(link, Mapping) or "bandwidth_gb_per_s" not in link:
        raise ConfigError(
            f"link of {path} must have bandwidth_gb_per_s and perhaps latency_us, was {_shown(link)}"
        )
    bandwidth, latency = link["bandwidth_gb_per_s"], link.get("latency_us", 0.0)
    _check.positive(f"bandwidth_gb_per_s of link of {path}", bandwidth)
    _check.not_negative(f"latency_us of link of {path}", latency)
    direct = link.get("direct", False)
    if not isinstance(direct, bool):
        raise ConfigError(f"direct of link of {path} must be true or false, was {direct!r}")
    return Link(bytes_per_s=1e9 * bandwidth, latency_s=1e-6 * latency, direct=direct)


def _requests(path: Path) -> pl.DataFrame:
    """Return the requests with their columns in their types, and others as they are."""
    frame = read_foreign(content(path, error=ConfigError), str(path), error=ConfigError)
    missing = [column for column in _COLUMNS if column not in frame.columns]
    if missing:
        raise ConfigError(f"{path} must have the columns {', '.join(_COLUMNS)}, lacked {', '.join(missing)}")
    row = "row (counting from 0)"
    held = hold_to(frame, _COLUMNS, str(path), row=row)
    without_nulls(held.select(_NEEDED), str(path), first=0, row=row)
    if held.is_empty():
        raise ConfigError(f"{path} must have at least one request, had none")
    return frame.with_columns(held.get_columns())


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
