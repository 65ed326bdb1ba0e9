"""The manifest of a saved ranker: what it was made from, and a hash of each of its files.

A folder is read only if it holds the files that its manifest names, each with its hash, and no other, and if
the manifest is as it was written. This finds damage and mixed-up files; it is no signature.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from paceline.errors import RankError

__all__ = ["NAME", "Data", "Manifest", "Quality", "read_manifest", "write_manifest"]

NAME: Final = "manifest.json"

_FORMAT: Final = 1


class Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a ranker was trained on.

    Attributes
    ----------
    sha256
        Of the prompts, lengths and groups in order.
    samples, prompts, groups
        The number of samples, of different prompts, and of groups.
    """

    sha256: str
    samples: int
    prompts: int
    groups: int


class Quality(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Kendall's tau-b on prompts that were not trained on.

    Attributes
    ----------
    tau, low, high
        Value and 95% bootstrap interval.
    samples
        How many samples it is of.
    of
        Which.
    """

    tau: float
    low: float
    high: float
    samples: int
    of: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a saved ranker is.

    Attributes
    ----------
    paceline
        The version that made it.
    objective, objective_settings
        What it was trained for, such as ``"pairwise"`` and its delta, partners and margin.
    family, settings
        ``"light"`` or ``"neural"`` and what describes its model, such as the encoder.
    seed
        Of all that was drawn.
    data
        What it was trained on.
    quality
        How well it ranks, by name.
    note
        Licences, and whatever else is to be known.
    files
        SHA-256 of each file but the manifest, by its path in the folder.
    sha256
        Of the manifest with this field empty.
    """

    format: int = _FORMAT
    paceline: str
    objective: Literal["pairwise", "listwise", "pointwise"]
    objective_settings: dict[str, float | int]
    family: Literal["light", "neural"]
    settings: dict[str, Any]
    seed: int
    data: Data
    quality: dict[str, Quality]
    note: str = ""
    files: dict[str, str] = {}
    sha256: str = ""

    def digest(self) -> str:
        """Return the hash of all other fields."""
        return hashlib.sha256(
            msgspec.json.encode(msgspec.structs.replace(self, sha256=""), order="sorted")
        ).hexdigest()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest into a folder that holds all other files."""
    complete = msgspec.structs.replace(manifest, files=_hashes(folder))
    complete = msgspec.structs.replace(complete, sha256=complete.digest())
    text = msgspec.json.format(msgspec.json.encode(complete), indent=2)
    (folder / NAME).write_bytes(text + b"\n")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder, and check all files against it.

    Raises
    ------
    RankError
        It is no folder of a ranker, or a file is missing, changed or not named in the manifest.
    """
    path = folder / NAME
    if not path.is_file():
        raise RankError(f"{folder}: must be the folder of a saved ranker, but has no {NAME}")
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RankError(f"{path}: is no manifest of a ranker: {error}") from error
    if manifest.format != _FORMAT:
        raise RankError(
            f"{path}: format must be {_FORMAT}, was {manifest.format}; read it with its own version"
        )
    if manifest.digest() != manifest.sha256:
        raise RankError(f"{path}: was changed after it was written: its own hash is another; fetch it again")
    found = _hashes(folder)
    for name, expected in manifest.files.items():
        if name not in found:
            raise RankError(f"{folder / name}: is missing; fetch the folder again")
        if found[name] != expected:
            raise RankError(
                f"{folder / name}: must be as it was saved, with SHA-256 {expected[:12]}…, was "
                f"{found[name][:12]}…; "
                "fetch the folder again"
            )
    for name in found:
        if name not in manifest.files:
            raise RankError(f"{folder / name}: is not named in {NAME}; remove it")
    return manifest


def _hashes(folder: Path) -> dict[str, str]:
    hashes = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != NAME:
            with path.open("rb") as file:
                hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes
