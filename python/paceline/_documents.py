"""Documents that people write: policies, clusters, runs, studies, and the JSON that a command printed."""

from __future__ import annotations

from pathlib import Path

from paceline.errors import ConfigError, PacelineError
from paceline.limits import Limits

__all__ = ["read_document"]


def read_document(path: Path, error: type[PacelineError] = ConfigError) -> str:
    """Return the text of a document.

    Parameters
    ----------
    path
        The file.
    error
        The exception for a file that cannot be used.

    Raises
    ------
    PacelineError
        If the file is not UTF-8 or larger than the limit ``document_bytes``, or the path is
        that of a folder or cannot be one of a file.
    OSError
        If the file cannot be read otherwise, such as one that does not exist.
    """
    limits = Limits.current()
    try:
        with path.open("rb") as file:
            raw = file.read(limits.document_bytes + 1)
    except ValueError as reason:
        raise error(f"{str(path)!r}: cannot be the path of a file: {reason}") from reason
    except IsADirectoryError as reason:
        raise error(f"{path}: must be a file, was a folder") from reason
    if len(raw) > limits.document_bytes:
        raise error(f"{path}: {limits.over('document_bytes', 'larger')}")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as reason:
        raise error(f"{path}: must be UTF-8: {reason}") from reason
