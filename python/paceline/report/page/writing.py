"""Writing a page to a file, whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from paceline._atomic import new_file
from paceline.errors import ResultError

__all__ = ["page_file", "write_page"]


def page_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a page's file, which must be in a directory; to make the page takes seconds."""
    target = Path(path)
    if target.is_dir():
        raise ResultError(
            f"{target}: must be a file, was a directory; name a file in it, such as report.html"
        )
    if not target.parent.exists():
        raise ResultError(f"{target}: could not be written: {os.strerror(errno.ENOENT)}")
    return target


def write_page(text: str, target: Path) -> Path:
    """Write a page, in place of the file that is there, and return its path."""
    try:
        with new_file(target) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultError(f"{target}: could not be written: {error.strerror or error}") from error
    return target
