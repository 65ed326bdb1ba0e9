"""NVIDIA AISimulate's database of operators: read from its wheel, installation or folder; never bundled.

AISimulate (Apache-2.0, PyPI ``aisimulate``) keeps Parquet tables under ``aisimulate_core/systems/data``, by
GPU, family, backend and version: ``h100_sxm/gemm/vllm/0.24.0/gemm_perf.parquet``. Latencies are in
milliseconds.
What is used here: matrix multiplications, attention of prompts and of decodes, latent attention, experts and
collectives (:data:`TABLES`). Norms, activations and sampling are not in it; they stand for their memory
traffic, at the bandwidth its system file gives.
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePosixPath

import polars as pl

from paceline.errors import ConfigError
from paceline.kernels.metadata import flatten

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
            if not zipfile.is_zipfile(self.where):
                raise ConfigError(f"{self.where} must be a wheel of aisimulate or a folder of its data")
            with zipfile.ZipFile(self.where) as archive:
                self._files = [name for name in archive.namelist() if name.startswith(f"{_ROOT}/")]
            self._root = ""
        else:
            self._root = str(_systems(self.where))
            files = (file.relative_to(self._root) for file in Path(self._root).rglob("*") if file.is_file())
            self._files = [f"{_ROOT}/{file.as_posix()}" for file in files]
        self.releases = tuple(sorted(_releases(self._files)))
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
        """Return each GPU, backend and version whose matrix multiplications and attention were measured.

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
        """Return a file by its path under ``systems``."""
        return self._bytes(f"{_ROOT}/{name}")

    def table(self, release: Release) -> pl.DataFrame:
        """Return a table as it is."""
        return pl.read_parquet(io.BytesIO(self.read(release.path)))

    def system(self, gpu: str) -> dict[str, str]:
        """Return what the database says of a GPU, by dotted names: ``gpu.mem_bw``, ``node.intra_node_bw``."""
        name = f"{_ROOT}/{gpu}.yaml"
        if name not in self._files:
            raise ConfigError(f"{self.where} must have {gpu}.yaml; it has tables of {', '.join(self.gpus)}")
        return flatten(self._bytes(name).decode(), f"{gpu}.yaml")

    def _bytes(self, name: str) -> bytes:
        if not self._root:
            with zipfile.ZipFile(self.where) as archive:
                return archive.read(name)
        return (Path(self._root) / PurePosixPath(name).relative_to(_ROOT)).read_bytes()


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


def _releases(files: list[str]) -> list[Release]:
    parts = (PurePosixPath(name).relative_to(_ROOT).parts for name in files if name.endswith(".parquet"))
    return [
        Release(part[1], part[2], part[3], part[4], part[5].removesuffix(".parquet"))
        for part in parts
        if len(part) == 6 and part[0] == "data"
    ]


def _order(version: str) -> tuple[int, ...]:
    """Order versions by their numbers, those that are named after a commit before all others."""
    digits = "".join(c if c.isdigit() else " " for c in version.replace("post", "."))
    return (version[:1].isdigit(), *(int(part) for part in digits.split()))
