"""NVIDIA AISimulate's database of operators: read from its wheel, installation or folder; never bundled.

AISimulate (Apache-2.0, PyPI ``aisimulate``) keeps Parquet tables under ``aisimulate_core/systems/data``, by
GPU, family, backend and version: ``h100_sxm/gemm/vllm/0.24.0/gemm_perf.parquet``. Latencies are in
milliseconds.
What is used here: matrix multiplications, attention of prompts and of decodes, latent attention, experts and
collectives (:data:`TABLES`). Norms, activations and sampling are not in it; they stand for their memory
traffic, at the bandwidth its system file gives.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePosixPath

import polars as pl

from paceline._parquet import check_foreign, parse
from paceline.errors import ConfigError
from paceline.kernels.metadata import flatten
from paceline.limits import Limits
from paceline.trace.seal import check_seal

__all__ = ["TABLES", "Database", "Release"]

_ROOT = "aisimulate_core/systems"
#: The tables that profiles are made of; the database has more.
TABLES = frozenset(
    {
        "gemm_perf",
        "context_attention_perf",
        "generation_attention_perf",
        "mla_context_module_perf",
        "mla_generation_module_perf",
        "context_mla_perf",
        "generation_mla_perf",
        "mla_bmm_perf",
        "moe_perf",
        "custom_allreduce_perf",
        "nccl_perf",
    }
)


#: The columns of each table that profiles are made of.
_COLUMNS = {
    "gemm_perf": ("gemm_dtype", "m", "n", "k", "latency"),
    **dict.fromkeys(
        ("context_attention_perf", "generation_attention_perf"),
        (
            *("num_heads", "num_key_value_heads", "head_dim", "kv_cache_dtype", "attn_dtype"),
            *("batch_size", "isl", "step", "latency"),
        ),
    ),
    **dict.fromkeys(
        ("mla_context_module_perf", "mla_generation_module_perf"),
        ("num_heads", "gemm_type", "batch_size", "isl", "step", "latency"),
    ),
    **dict.fromkeys(
        ("context_mla_perf", "generation_mla_perf"), ("num_heads", "batch_size", "isl", "step", "latency")
    ),
    "mla_bmm_perf": ("bmm_dtype", "num_heads", "op_name", "num_tokens", "latency"),
    "moe_perf": (
        *("hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "moe_dtype"),
        *("distribution", "num_tokens", "latency"),
    ),
    "custom_allreduce_perf": ("num_gpus", "kernel_source", "message_size", "latency"),
    "nccl_perf": ("op_name", "nccl_dtype", "num_gpus", "message_size", "latency"),
}
_TEXTS = frozenset(
    {
        *("gemm_dtype", "kv_cache_dtype", "attn_dtype", "gemm_type", "bmm_dtype", "op_name", "moe_dtype"),
        *("distribution", "kernel_source", "nccl_dtype"),
    }
)
_NUMBERS = frozenset(name for names in _COLUMNS.values() for name in names) - _TEXTS
#: What zipfile raises for archives that are damaged, encrypted or packed in a way that it does not know.
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError)
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A table of the database: its GPU, family, backend and version.

    Parameters
    ----------
    gpu, family, backend, version
        As the folders are called: ``h100_sxm``, ``gemm``, ``vllm``, ``0.24.0``.
    file
        Name of the table in there.
    """

    gpu: str
    family: str
    backend: str
    version: str
    file: str

    @property
    def path(self) -> str:
        """Where it is under ``systems``."""
        parts = ("data", self.gpu, self.family, self.backend, self.version, self.file)
        return f"{'/'.join(parts)}.parquet"


class Database:
    """The tables, wherever they are.

    Parameters
    ----------
    where
        A wheel file, a folder (its ``systems`` or one above), or None for the installed package.

    Raises
    ------
    ConfigError
        If there is no database.
    """

    def __init__(self, where: str | PathLike[str] | None = None) -> None:
        self.where = _installed() if where is None else Path(where)
        if self.where.is_file():
            self._files = _archived(self.where)
            self._root = ""
        else:
            self._root = str(_systems(self.where))
            files = (file.relative_to(self._root) for file in Path(self._root).rglob("*") if file.is_file())
            self._files = [f"{_ROOT}/{file.as_posix()}" for file in files]
        self.releases = tuple(sorted(_releases(self._files, self.where)))
        if not self.releases:
            raise ConfigError(f"{self.where} must have tables under {_ROOT}/data, had none")

    def __repr__(self) -> str:
        return f"Database({str(self.where)!r}: {len(self.releases)} tables)"

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs there are tables of."""
        return tuple(sorted({release.gpu for release in self.releases}))

    def find(self, gpu: str, file: str, *, backend: str, version: str | None = None) -> Release:
        """Return a table: that version's, else the newest one.

        Where a version lacks a table, an older version of the same backend fills in, as AISimulate itself has
        it: kernels that did not change were not measured again.

        Raises
        ------
        ConfigError
            If there is none; the message names what there is.
        """
        found = [r for r in self.releases if (r.gpu, r.backend, r.file) == (gpu, backend, file)]
        if version is not None:
            found = [r for r in found if _order(r.version) <= _order(version)]
        if not found:
            known = sorted({(r.backend, r.version) for r in self.releases if (r.gpu, r.file) == (gpu, file)})
            there = ", ".join(f"{backend} {version}" for backend, version in known) or "none"
            raise ConfigError(
                f"{self.where} must have {file} of {' '.join(filter(None, (backend, version)))} on {gpu}; "
                f"of that table it has {there}"
            )
        return max(found, key=lambda r: _order(r.version))

    def engines(self, gpu: str | None = None) -> tuple[tuple[str, str, str], ...]:
        """Return each GPU, backend and version with measured matrix multiplications and attention.

        Versions with tables of a few new kernels alone are left out: models cannot be made up of them.

        Parameters
        ----------
        gpu
            Only this one's.
        """
        whole: dict[tuple[str, str, str], set[str]] = {}
        for release in self.releases:
            if gpu in (None, release.gpu):
                whole.setdefault((release.gpu, release.backend, release.version), set()).add(release.file)
        needed = {"gemm_perf", "generation_attention_perf", "context_attention_perf"}
        return tuple(sorted(key for key, files in whole.items() if needed <= files))

    def newest(self, gpu: str, backend: str) -> str:
        """Return the newest version of a backend among :meth:`engines`.

        Raises
        ------
        ConfigError
            If there is none; the message names what there is.
        """
        versions = [version for _, name, version in self.engines(gpu) if name == backend]
        if not versions:
            known = sorted({f"{place}/{name}" for place, name, _ in self.engines()})
            raise ConfigError(f"{self.where} must have {backend} on {gpu}, has {', '.join(known)}")
        return max(versions, key=_order)

    def read(self, name: str) -> bytes:
        """Return a file by its path under ``systems``.

        Raises
        ------
        ConfigError
            If it is not there, is damaged, or exceeds a limit.
        """
        if f"{_ROOT}/{name}" not in self._files:
            raise ConfigError(f"{self.where} must have {name}, had none")
        return self._bytes(f"{_ROOT}/{name}")

    def table(self, release: Release) -> pl.DataFrame:
        """Return a table as it is.

        Raises
        ------
        ConfigError
            If it is no readable Parquet file, or lacks a column that profiles are made of.
        """
        data, what = self.read(release.path), f"{release.path} of {self.where}"
        if not check_seal(data, what, error=ConfigError):
            check_foreign(data, what, error=ConfigError)
        return _checked(parse(data, what, error=ConfigError), release.file, what)

    def system(self, gpu: str) -> dict[str, str]:
        """Return what the database says of a GPU, by dotted names: ``gpu.mem_bw``, ``node.intra_node_bw``."""
        name = f"{_ROOT}/{gpu}.yaml"
        if name not in self._files:
            raise ConfigError(f"{self.where} must have {gpu}.yaml; it has tables of {', '.join(self.gpus)}")
        try:
            return flatten(self._bytes(name).decode(), f"{gpu}.yaml")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{gpu}.yaml of {self.where} must be UTF-8 text: {error}") from error

    def _bytes(self, name: str) -> bytes:
        limits = Limits.current()
        if not self._root:
            with _opened(self.where) as archive:
                # What the archive says of a file's length bounds what is read of it.
                size = archive.getinfo(name).file_size
                if size > limits.file_bytes:
                    was = limits.over("file_bytes", f"{size:,}")
                    raise ConfigError(f"{name} of {self.where}: bytes of the content {was}")
                return archive.read(name)
        path = Path(self._root) / PurePosixPath(name).relative_to(_ROOT)
        size = path.stat().st_size
        if size > limits.file_bytes:
            raise ConfigError(f"{path}: bytes of the file {limits.over('file_bytes', f'{size:,}')}")
        return path.read_bytes()


@contextlib.contextmanager
def _opened(where: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive, with what may be wrong in it as errors of ours."""
    try:
        with zipfile.ZipFile(where) as archive:
            yield archive
    except ConfigError:
        raise
    except _BROKEN as error:
        raise ConfigError(
            f"{where} must be a wheel of aisimulate or a folder of its data, was no readable wheel: {error}"
        ) from error


def _archived(where: Path) -> list[str]:
    """Return the files of the database in a wheel.

    Raises
    ------
    ConfigError
        If it is no wheel, or what is one of these files is a link.
    """
    files = []
    with _opened(where) as archive:
        for entry in archive.infolist():
            if not entry.filename.startswith(f"{_ROOT}/") or entry.is_dir():
                continue
            mode = entry.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise ConfigError(f"{where} must hold plain files, {entry.filename!r} was a link or a device")
            files.append(entry.filename)
    return files


def _checked(frame: pl.DataFrame, file: str, what: str) -> pl.DataFrame:
    """Return a table, or refuse one that lacks a column or holds something else in it."""
    missing = [name for name in _COLUMNS.get(file, ()) if name not in frame.columns]
    if missing:
        needed = ", ".join(_COLUMNS[file])
        raise ConfigError(f"{what} must have the columns {needed}, lacked {', '.join(missing)}")
    for column in frame.get_columns():
        if column.name in _TEXTS:
            good, rule = column.dtype == pl.String, "texts"
        elif column.name in _NUMBERS:
            good, rule = column.dtype.is_integer() or column.dtype.is_float(), "numbers"
        else:
            continue
        if not good:
            raise ConfigError(f"{what}: {column.name} must hold {rule}, was {column.dtype}")
        numbers = column if rule == "texts" else column.cast(pl.Float64)
        bad = numbers.is_null() if rule == "texts" else ~numbers.is_finite().fill_null(value=False)
        at = bad.arg_max() if bad.any() else None
        if at is not None:
            raise ConfigError(f"{what}, row {at} (counting from 0): {column.name} must not be {column[at]}")
    return frame


def _installed() -> Path:
    spec = importlib.util.find_spec("aisimulate_core")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("aisimulate is not installed: give its wheel file, or a folder of its data")
    return Path(next(iter(spec.submodule_search_locations)))


def _systems(folder: Path) -> Path:
    for candidate in (folder, folder / "systems", folder / _ROOT):
        if (candidate / "data").is_dir():
            return candidate
    raise ConfigError(f"{folder} must have a folder data, systems/data or {_ROOT}/data")


def _releases(files: list[str], where: Path) -> list[Release]:
    """Return the tables among the files; they are found, and written, by the names of their folders.

    Raises
    ------
    ConfigError
        If one of these names would lead elsewhere.
    """
    found = []
    for name in files:
        part = name.removeprefix(f"{_ROOT}/").removesuffix(".parquet").split("/")
        if len(part) != 6 or part[0] != "data" or not name.endswith(".parquet"):
            # A folder above, or a path from the root, is no other layout: it was made to be written there.
            if ".." in part or "" in part or "\\" in name:
                raise ConfigError(
                    f"{where} must have files inside its folder, {name[:200]!r} leads out of it"
                )
            continue
        if not all(_PART.fullmatch(each) for each in part):
            raise ConfigError(
                f"{where} must name its folders in letters, digits, '.', '+', '-' and '_', starting with a "
                f"letter or digit, was {name[:200]!r}"
            )
        found.append(Release(*part[1:]))
    return found


def _order(version: str) -> tuple[int, ...]:
    """Order versions by their numbers, those that are named after a commit before all others."""
    digits = "".join(c if c.isdigit() else " " for c in version.replace("post", "."))
    return (version[:1].isdigit(), *(int(part) for part in digits.split()))
