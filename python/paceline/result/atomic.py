"""Directories that appear whole or not at all.

Files are written into a hidden sibling, flushed to the disk, and renamed into
place. One rename makes a new directory; replacing an old one takes two, with
the old one put back if the second fails.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["abandon_unfinished", "new_directory"]

_UNFINISHED: set[Path] = set()


@contextlib.contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Yield an empty directory that becomes `target` when the block ends well.

    Whatever ends the block otherwise, an interrupt included, removes what was
    written and leaves `target` as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    _UNFINISHED.add(draft)
    try:
        yield draft
        draft.chmod(0o777 & ~_umask())
        for path in (*draft.iterdir(), draft):
            _flush(path)
        _put(draft, target)
        _flush(target.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        _UNFINISHED.discard(draft)


def abandon_unfinished() -> None:
    """Remove what other threads have begun to write: for a process about to end."""
    for draft in tuple(_UNFINISHED):
        # A writer may still add a file between the listing and the removal.
        for _ in range(3):
            shutil.rmtree(draft, ignore_errors=True)


def _put(draft: Path, target: Path) -> None:
    """Rename `draft` to `target`, in place of what is there."""
    if not target.exists():
        draft.rename(target)
        return
    old = draft.with_suffix(".replaced")
    target.rename(old)
    try:
        draft.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _flush(path: Path) -> None:
    """Wait until a file, or a directory's entries, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    # mkdtemp makes a private directory; a result should have the rights of any other new one.
    mask = os.umask(0)
    os.umask(mask)
    return mask
