"""The state of a streamed replay in files, from which the same call goes on.

A checkpoint is a folder in the directory that is being written: the engine's state, the rows of the trace
whose requests have not ended, what is known of the spreads, and a document that says the rest. It appears
whole, and the one before it is removed after that.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from paceline import _core
from paceline._atomic import kept_for, new_directory, remove_leftovers
from paceline.errors import ResultError
from paceline.result.manifest import check_file, file_entry
from paceline.result.parts import RequestParts

__all__ = ["Checkpoint", "Checkpoints", "build_sha256", "checkpoints_of"]

_NAME: Final = re.compile(r"state-(\d{5,})")
_DOCUMENT: Final = "checkpoint.json"
_ENGINE: Final = "engine.bin"
_FORMAT: Final = 1
"""Raised whenever what a checkpoint says changes."""

_INPUTS: Final = {
    "version": "version of Paceline",
    "build": "build of Paceline",
    "trace": "name of the trace",
    "trace_sha256": "trace",
    "chunk": "chunk of the scan",
    "cluster": "cluster",
    "policy": "policy",
    "settings": "settings",
    "run": "run.toml",
}
"""Inputs that decide a replay's files, and their words in messages."""


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint says beside its other files."""

    format: int
    inputs: dict[str, Any]
    read: int
    parts: dict[str, Any]
    files: dict[str, dict[str, Any]]


class Checkpoint(NamedTuple):
    """A state to go on from.

    Attributes
    ----------
    read
        The rows of the trace that the engine had been given.
    engine
        The engine's state.
    """

    read: int
    engine: bytes


class Checkpoints:
    """The checkpoints of one replay.

    Parameters
    ----------
    directory
        The directory that is being written.
    inputs
        What decides the replay's files, ready for JSON.
    every
        Rows of the trace between two checkpoints.
    """

    def __init__(self, directory: Path, inputs: Mapping[str, Any], every: int) -> None:
        self._directory, self._every = directory, every
        # As JSON has it, to compare with what was read.
        self._inputs = msgspec.json.decode(msgspec.json.encode(dict(inputs)))
        self._last = 0

    def resume(self, parts: RequestParts) -> Checkpoint | None:
        """Return the last checkpoint, with the parts as they were; None if there is none.

        Raises
        ------
        ResultError
            If it is of another replay, or damaged.
        """
        # A process that was killed as it wrote a checkpoint left the draft of it.
        remove_leftovers(self._directory)
        folders = self._folders()
        if not folders:
            self.clear(everything=True)
            return None
        folder = folders[-1]
        document = self._read(folder)
        others = [
            word for name, word in _INPUTS.items() if self._inputs.get(name) != document.inputs.get(name)
        ]
        if others:
            raise ResultError(
                f"{self._directory}: must be the checkpoint of this replay, was of one with another "
                f"{' and another '.join(others)}; delete it, or name another directory"
            )
        for name, entry in document.files.items():
            check_file(folder, name, entry)
        parts.take(folder, document.parts)
        self._last = document.read
        return Checkpoint(document.read, (folder / _ENGINE).read_bytes())

    def exist(self) -> bool:
        """Whether there is one."""
        return bool(self._folders())

    def due(self, read: int) -> bool:
        """Whether so many rows have been read that the state is to be kept."""
        return read - self._last >= self._every

    def keep(self, read: int, engine: bytes, parts: RequestParts) -> None:
        """Write a checkpoint, and remove the one before."""
        before = self._folders()
        number = 1 + _number(before[-1]) if before else 0
        with new_directory(self._directory / f"state-{number:05}") as folder:
            (folder / _ENGINE).write_bytes(engine)
            rest = dict(parts.keep(folder))
            files = {path.name: file_entry(path) for path in sorted(folder.iterdir())}
            document = _Document(format=_FORMAT, inputs=self._inputs, read=read, parts=rest, files=files)
            (folder / _DOCUMENT).write_bytes(msgspec.json.encode(document))
        for folder in before:
            shutil.rmtree(folder)
        self._last = read

    def clear(self, *, everything: bool = False) -> None:
        """Remove the checkpoints; with `everything`, what an earlier replay wrote beside them, too."""
        for path in self._directory.iterdir() if everything else self._folders():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _folders(self) -> list[Path]:
        """Return the checkpoints, the last one last."""
        return _folders_in(self._directory)

    def _read(self, folder: Path) -> _Document:
        path = folder / _DOCUMENT
        try:
            document = msgspec.json.decode(path.read_bytes(), type=_Document)
        except (OSError, msgspec.MsgspecError) as error:
            raise ResultError(
                f"{path}: not readable as a checkpoint ({error}); delete {self._directory} to start anew"
            ) from error
        if document.format != _FORMAT:
            raise ResultError(
                f"{path}: format must be {_FORMAT}, was {document.format}; delete {self._directory} to start "
                "anew"
            )
        return document


def checkpoints_of(target: Path) -> Path | None:
    """Return the directory with the checkpoints of a target; None without one, as before the first."""
    directory = kept_for(target)
    return directory if directory is not None and _folders_in(directory) else None


def _folders_in(directory: Path) -> list[Path]:
    found = [path for path in directory.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(found, key=_number)


def _number(folder: Path) -> int:
    return int(folder.name.removeprefix("state-"))


def build_sha256() -> str:
    """Return the hash of the native module: another build may have another state, or another result."""
    with Path(_core.__file__).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
