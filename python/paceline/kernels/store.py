"""Where profiles live, and how they are found by name.

Some come with Paceline: those that ``paceline profile`` measured. Profiles that a user imports go into a
folder of the user's, never into the package, and are found before one of the same name that comes with it.
A model's own profile is one file there, ``NAME.parquet``; AISimulate's database is the folder
``aisimulate``, of which a name says which kernels to take: ``aisimulate/h100_sxm/vllm/0.24.0``.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import msgspec

from paceline._toml import close_matches
from paceline.errors import ConfigError
from paceline.kernels.aisimulate import Database
from paceline.trace.opening import content

__all__ = [
    "ENVIRONMENT",
    "OPERATORS",
    "ORIGIN",
    "Operators",
    "Stored",
    "check_name",
    "locate",
    "shipped",
    "stored",
    "user_folder",
]

#: The environment variable that names another folder.
ENVIRONMENT = "PACELINE_PROFILES"
#: The folder of AISimulate's database, and the first part of the names of its engines.
OPERATORS = "aisimulate"
#: The file that says where a database came from.
ORIGIN = "origin.json"
_SHIPPED = Path(str(resources.files("paceline.catalog"))) / "profiles"


@dataclass(frozen=True, slots=True)
class Operators:
    """Kernels of one engine on one GPU, of which models are made up.

    Parameters
    ----------
    database
        The folder of the database.
    gpu, backend, version
        As its folders are called.
    """

    database: Path
    gpu: str
    backend: str
    version: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A profile by its name.

    Parameters
    ----------
    name
        What :class:`~paceline.kernels.table.Table` takes.
    what
        ``"model"``: one model's kernels; ``"operators"``: kernels that many models can be made up of.
    path
        The file, or the folder of the database.
    origin
        Where it came from, as far as it says.
    """

    name: str
    what: str
    path: Path
    origin: Mapping[str, str] = field(default_factory=dict)


def user_folder() -> Path:
    """Return the folder of imported profiles, which need not be there.

    ``$PACELINE_PROFILES`` if that is set; else ``paceline/profiles`` where the platform keeps a user's data:
    ``$XDG_DATA_HOME`` or ``~/.local/share``, ``~/Library/Application Support`` on macOS, ``%LOCALAPPDATA%``
    on Windows.
    """
    chosen = os.environ.get(ENVIRONMENT)
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        data = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        data = Path.home() / "Library" / "Application Support"
    else:
        data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return data / "paceline" / "profiles"


def shipped() -> tuple[Stored, ...]:
    """Return the profiles that come with Paceline, by name.

    Each has its device, driver, versions and date among its facts (``paceline profiles show``).

    Examples
    --------
    >>> "h100-sxm-qwen3-14b" in [profile.name for profile in shipped()]
    True
    """
    origin = {"source": "paceline profile, shipped"}
    return tuple(Stored(file.stem, "model", file, origin) for file in sorted(_SHIPPED.glob("*.parquet")))


def stored(folder: Path | None = None) -> tuple[Stored, ...]:
    """Return what has been imported, by name.

    Parameters
    ----------
    folder
        Where to look; None: :func:`user_folder`.
    """
    folder = user_folder() if folder is None else folder
    found = [
        Stored(str(file.relative_to(folder).with_suffix("").as_posix()), "model", file)
        for file in sorted(folder.glob("*.parquet"))
    ]
    database = folder / OPERATORS
    if database.is_dir():
        origin = _origin(database)
        found += [
            Stored(f"{OPERATORS}/{gpu}/{backend}/{version}", "operators", database, origin)
            for gpu, backend, version in Database(database).engines()
        ]
    return tuple(sorted(found, key=lambda entry: entry.name))


def locate(name: str, folder: Path | None = None) -> Path | Operators:
    """Return the profile of a name: a path that exists, else an imported profile, else one that is shipped.

    Parameters
    ----------
    name
        A path, or a name; an engine's version may be left out, and is then the newest.
    folder
        Where imported profiles are; None: :func:`user_folder`.

    Raises
    ------
    ConfigError
        If it is neither.
    """
    folder = user_folder() if folder is None else folder
    if Path(name).exists():
        return Path(name)
    parts = name.split("/")
    if parts[0] == OPERATORS and 3 <= len(parts) <= 4 and (folder / OPERATORS).is_dir():
        return _engine(folder / OPERATORS, parts[1], parts[2], parts[3] if len(parts) == 4 else None)
    file = folder / f"{name}.parquet"
    if _is_name(name) and file.is_file():
        return file
    with_paceline = {entry.name: entry.path for entry in shipped()}
    if name in with_paceline:
        return with_paceline[name]
    known = [entry.name for entry in stored(folder)]
    close = difflib.get_close_matches(name, [*known, *with_paceline], n=3, cutoff=0.5)
    there = (
        f"; close to it: {', '.join(close)}"
        if close
        else f"; shipped: {', '.join(with_paceline)}; {len(known)} have been imported to {folder}"
    )
    raise ConfigError(
        f"a kernel profile must be a path, or the name of an imported or shipped one, was {name!r}{there}"
    )


def check_name(name: str) -> None:
    """Refuse a name for a profile that a file cannot have on every platform.

    Raises
    ------
    ConfigError
        If it has other signs than letters, digits, dots, dashes and underscores, or starts with a dot.
    """
    if not _is_name(name) or name == OPERATORS:
        raise ConfigError(
            f"name of a profile must be letters, digits, '.', '-' and '_', starting with a letter or digit, "
            f"and not {OPERATORS!r}, was {name!r}"
        )


def _is_name(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) is not None


def _engine(database: Path, gpu: str, backend: str, version: str | None) -> Operators:
    tables = Database(database)
    chosen = version or tables.newest(gpu, backend)
    if (gpu, backend, chosen) not in tables.engines():
        known = [f"{OPERATORS}/{'/'.join(engine)}" for engine in tables.engines()]
        name = f"{OPERATORS}/{gpu}/{backend}/{chosen}"
        raise ConfigError(f"{database} has no kernels of {name!r}{close_matches(name, known)}")
    return Operators(database, gpu, backend, chosen)


def _origin(database: Path) -> dict[str, str]:
    file = database / ORIGIN
    if not file.is_file():
        return {}
    try:
        origin = msgspec.json.decode(content(file, error=ConfigError), type=dict[str, str])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ConfigError(f"{file} must be a JSON object of texts: {error}; import again") from error
    return origin
