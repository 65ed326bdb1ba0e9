"""Bringing profiles from elsewhere into the user's folder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from os import PathLike
from pathlib import Path

from paceline._atomic import new_file
from paceline._parquet import check_foreign
from paceline.errors import ConfigError
from paceline.kernels.aisimulate import TABLES, Database, Release
from paceline.kernels.parquet import write_parquet
from paceline.kernels.profile import KernelProfile
from paceline.kernels.reading import read_profile
from paceline.kernels.store import OPERATORS, ORIGIN, check_name, stored, user_folder
from paceline.kernels.vidur import read_vidur
from paceline.limits import Limits
from paceline.trace.seal import check_seal, sealed

__all__ = ["import_profiles"]

_COMPRESSED = ("", ".zst", ".gz")


def import_profiles(
    source: str | PathLike[str],
    *,
    into: str | PathLike[str] | None = None,
    name: str | None = None,
    gpus: Collection[str] = (),
    backends: Collection[str] = (),
    tensor_parallel: int | None = None,
) -> tuple[str, ...]:
    """Make profiles usable by name.

    Parameters
    ----------
    source
        AISimulate's wheel, a folder of its data, or the word ``aisimulate`` for the installed package; a
        folder of Vidur's (``mlp.csv`` and ``attention.csv``) or of LLMServingSim's profiler (``dense.csv``,
        ``attention.csv``, …; with ``tp1`` and so on in it, or of one of these); or a file in our own format.
    into
        The folder to import to; None: :func:`~paceline.kernels.store.user_folder`.
    name
        What to call a model's profile; None: after the source. AISimulate's have names of their own.
    gpus, backends
        Only these of AISimulate's, as it calls them; by default all.
    tensor_parallel
        Of a source with several, the split to take; None: 1.

    Returns
    -------
    tuple of str
        The names that were imported.

    Raises
    ------
    ConfigError
        If the source is none of these, or not well formed.
    """
    folder = user_folder() if into is None else Path(into)
    path = Path(source)
    if str(source) == OPERATORS and not path.exists():
        return _database(Database(None), folder, gpus, backends)
    if not path.exists():
        raise ConfigError(f"{path} must be a file or a folder, or {OPERATORS!r} for the installed package")
    if path.suffix in (".whl", ".zip") or _holds_database(path):
        return _database(Database(path), folder, gpus, backends)
    if gpus or backends:
        raise ConfigError(f"gpus and backends must be given for AISimulate's data alone, which {path} is not")
    profile = _read(path, tensor_parallel)
    chosen = name or _default_name(path, tensor_parallel)
    check_name(chosen)
    folder.mkdir(parents=True, exist_ok=True)
    write_parquet(profile, _inside(folder, f"{chosen}.parquet"))
    return (chosen,)


def _holds_database(path: Path) -> bool:
    roots = (path, path / "systems", path / "aisimulate_core" / "systems")
    return path.is_dir() and any((root / "data").is_dir() for root in roots)


def _read(path: Path, tensor_parallel: int | None) -> KernelProfile:
    ranks = tensor_parallel or 1
    mlp = _one_of(path, "mlp.csv")
    if mlp is not None:
        return read_vidur(mlp, _one_of(path, "attention.csv"), tensor_parallel=ranks)
    if (path / f"tp{ranks}").is_dir():
        return read_profile(path / f"tp{ranks}")
    profile = read_profile(path)
    if tensor_parallel is not None and profile.tensor_parallel not in (None, tensor_parallel):
        raise ConfigError(
            f"tensor_parallel of {path} must be {profile.tensor_parallel}, which it was measured of, "
            f"was {tensor_parallel}"
        )
    return profile


def _one_of(path: Path, name: str) -> Path | None:
    """Return a file of a folder, compressed or not; Vidur's have the network or model before the name."""
    if path.is_file():
        return path if re.search(rf"{re.escape(name)}(\.zst|\.gz)?$", path.name) else None
    found = [path / f"{name}{suffix}" for suffix in _COMPRESSED]
    return next((file for file in found if file.is_file()), None)


def _default_name(path: Path, tensor_parallel: int | None) -> str:
    resolved = path.resolve()
    words = resolved.parent.name if resolved.name in ("profile", "profiles") else resolved.name
    words = re.sub(r"\.(parquet|csv|zst|gz)", "", words)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", words) + (f"-tp{tensor_parallel}" if tensor_parallel else "")


def _database(
    database: Database, folder: Path, gpus: Collection[str], backends: Collection[str]
) -> tuple[str, ...]:
    """Copy the tables that profiles are made of, leaving those of earlier imports where they are."""
    _check_known("gpus", gpus, database.gpus)
    _check_known("backends", backends, sorted({engine[1] for engine in database.engines()}))
    chosen = [
        release
        for release in database.releases
        if release.file in TABLES
        and (not gpus or release.gpu in gpus)
        and (not backends or release.backend in backends or release.file == "nccl_perf")
    ]
    # All is read and checked before anything is written.
    limits, taken, contents = Limits.current(), 0, {}
    for release in chosen:
        table = contents[f"systems/{release.path}"] = _sealed_table(database, release)
        taken += len(table)
        if taken > limits.file_bytes:
            raise ConfigError(f"{database.where}: bytes of all tables {limits.over('file_bytes', 'more')}")
    for gpu in sorted({release.gpu for release in chosen}):
        database.system(gpu)
        contents[f"systems/{gpu}.yaml"] = database.read(f"{gpu}.yaml")
    contents[ORIGIN] = json.dumps(_origin(database.where), indent=1).encode()
    for path, content in contents.items():
        target = _inside(folder, f"{OPERATORS}/{path}")
        with new_file(target) as draft:
            draft.write_bytes(content)
    return tuple(
        entry.name
        for entry in stored(folder)
        if entry.what == "operators"
        and (not gpus or entry.name.split("/")[1] in gpus)
        and (not backends or entry.name.split("/")[2] in backends)
    )


def _check_known(what: str, chosen: Collection[str], known: Collection[str]) -> None:
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        raise ConfigError(f"{what} must be among {', '.join(known)}, was {', '.join(unknown)}")


def _sealed_table(database: Database, release: Release) -> bytes:
    """Return a table that was parsed once, with a checksum, so that it is not checked again at each use."""
    data, what = database.read(release.path), f"{release.path} of {database.where}"
    if check_seal(data, what, error=ConfigError):
        return data
    check_foreign(data, what, error=ConfigError)
    return sealed(data)


def _inside(folder: Path, path: str) -> Path:
    """Return a place in a folder, and create its parents; refuse one that a link leads out of the folder.

    Raises
    ------
    ConfigError
        If the place is not inside.
    """
    root = folder.resolve()
    target = root / path
    here = root
    for part in Path(path).parts:
        here = here / part
        if here.is_symlink() or part == "..":
            raise ConfigError(f"{here} must be a plain file or folder to import to, was a link; remove it")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _origin(where: Path) -> dict[str, str]:
    """Return where a database came from; its licence is what the wheel's metadata says."""
    origin = {"source": where.name, "license": "Apache-2.0 (AISimulate, NVIDIA)"}
    if where.is_file():
        with where.open("rb") as file:
            origin["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    return origin
