"""The manifest of a saved result: its files, and the inputs of the replay.

The manifest names every other file with its length and SHA-256, and its own
text has a checksum, so that a damaged or mixed-up directory is detected.
Nothing in it depends on when or where it was written: the same replay saves
the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from paceline.errors import ResultError

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "MANIFEST",
    "check_file",
    "file_entry",
    "read_manifest",
    "write_manifest",
]

MANIFEST: Final = "manifest.json"
FORMAT: Final = "paceline-result"
FORMAT_VERSION: Final = 1
"""Raised whenever an older Paceline could misread what a newer one wrote."""


def file_entry(path: Path) -> dict[str, Any]:
    """Return a file's entry in the manifest."""
    return {"bytes": path.stat().st_size, "sha256": _sha256(path)}


def write_manifest(directory: Path, body: dict[str, Any]) -> None:
    """Write `body` with format, version and checksum."""
    whole = {"format": FORMAT, "format_version": FORMAT_VERSION, **body}
    whole["checksum"] = _checksum(whole)
    text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    (directory / MANIFEST).write_text(text, encoding="utf-8")


def read_manifest(directory: Path) -> dict[str, Any]:
    """Read and check the manifest of a saved result.

    Raises
    ------
    ResultError
        If there is none, it is damaged, or of an unknown version.
    """
    path = directory / MANIFEST
    if not directory.is_dir():
        raise ResultError(
            f"{directory}: not a directory; a saved result is a directory with {MANIFEST} in it"
        )
    if not path.is_file():
        raise ResultError(f"{directory}: no {MANIFEST} in it, so not a saved result")
    try:
        whole = json.loads(path.read_bytes())
    except (ValueError, OSError, RecursionError) as error:
        raise ResultError(f"{path}: not readable as JSON ({error}); save the result again") from error
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        was = whole.get("format") if isinstance(whole, dict) else whole
        raise ResultError(f"{path}: format must be {FORMAT!r}, was {was!r}; this is no result of Paceline's")
    version = whole.get("format_version")
    if version != FORMAT_VERSION:
        raise ResultError(
            f"{path}: format_version must be {FORMAT_VERSION}, was {version!r}; "
            f"it was written by Paceline {_writer(whole)}, read it with that version"
        )
    if whole.pop("checksum", None) != _checksum(whole):
        raise ResultError(f"{path}: checksum does not match the text; the manifest was changed after saving")
    return whole


def check_file(directory: Path, name: str, entry: dict[str, Any]) -> Path:
    """Return the path of a file that matches its entry in the manifest, or raise ResultError."""
    path = directory / name
    if not path.is_file():
        raise ResultError(f"{path}: missing; the manifest names it")
    size = path.stat().st_size
    if size != entry["bytes"]:
        raise ResultError(
            f"{path}: must have {entry['bytes']} bytes, had {size}; it was cut short or changed"
        )
    if _sha256(path) != entry["sha256"]:
        raise ResultError(f"{path}: SHA-256 does not match the manifest; the file was changed after saving")
    return path


def _writer(whole: dict[str, Any]) -> str:
    provenance = whole.get("provenance")
    return str(provenance.get("version", "(unknown)")) if isinstance(provenance, dict) else "(unknown)"


def _checksum(body: dict[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
