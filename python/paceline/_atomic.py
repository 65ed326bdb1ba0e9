"""Files and directories that are written whole or not at all.

Content is written to a hidden sibling, a draft, which is flushed to the disk and renamed into place.
One rename makes a new file or directory, or replaces a file; replacing a directory takes two, with the old
one put back if the second fails.

A process that is killed leaves its draft behind. Its writer holds a lock (``flock``) on a draft as long as
it runs, and the system releases the lock when the process ends, however it ends. So a draft without a lock
has no writer: the next run that writes to the same place removes it, and `leftovers` finds all in a folder.
A draft is never removed while its lock is held, or where the file system has no locks.

A directory that takes long to write may be kept with what it has, and continued (`kept_directory`): its draft
has a name that the next run finds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from paceline import _check

if sys.platform != "win32":
    import fcntl

__all__ = [
    "abandon_unfinished",
    "flush",
    "kept",
    "kept_directory",
    "kept_for",
    "leftovers",
    "new_directory",
    "new_file",
    "remove_kept",
    "remove_leftovers",
]

_TRIES: Final = 100
_MORE: Final = 1 << 20
_NAME: Final = re.compile(r"\.(?P<target>.+)\.[0-9a-f]{12}\.(?P<kind>partial|replaced)", re.DOTALL)

_KEPT: Final = ".{}.checkpoint"

_UNFINISHED: set[Path] = set()


@contextlib.contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Yield an empty directory that becomes `target` when the block ends well.

    Whatever ends the block otherwise, an interrupt included, removes what was
    written and leaves `target` as it was. What killed processes left of the
    same target is removed first.
    """
    _check.path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target.parent, target.name)
    with _draft(target, directory=True) as draft:
        with _naming(target, draft):
            yield draft
        for path in (*draft.iterdir(), draft):
            flush(path)
        _put(draft, target, draft.with_suffix(".replaced"))
        flush(target.parent)


@contextlib.contextmanager
def kept_directory(target: Path) -> Iterator[Path]:
    """Yield a directory that becomes `target` when the block ends well, and that stays beside it otherwise.

    The next call for the same target yields it with what it holds; one that holds nothing does not stay.

    Raises
    ------
    BlockingIOError
        If another process writes to it.
    """
    _check.path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target.parent, target.name)
    draft = target.with_name(_KEPT.format(target.name))
    draft.mkdir(exist_ok=True)
    descriptor = _opened(draft)
    try:
        if descriptor is not None and _try_lock(descriptor) is False:
            raise BlockingIOError(errno.EWOULDBLOCK, "another process writes to it", str(draft))
        with _naming(target, draft):
            yield draft
        for path in (*draft.iterdir(), draft):
            flush(path)
        _put(draft, target, target.with_name(f".{target.name}.{os.urandom(6).hex()}.replaced"))
        flush(target.parent)
    finally:
        with contextlib.suppress(OSError):
            draft.rmdir()
        if descriptor is not None:
            os.close(descriptor)


def kept_for(target: Path) -> Path | None:
    """Return the directory that `kept_directory` kept for a target, if there is one."""
    draft = Path(os.path.realpath(target)).with_name(_KEPT.format(target.name))
    return draft if draft.is_dir() else None


def kept(folder: Path) -> tuple[Path, ...]:
    """Return the directories in a folder that `kept_directory` kept, and to which no process writes."""
    found = []
    for entry in sorted(folder.glob(_KEPT.format("*"))):
        with _lock(entry) as free:
            if free and entry.is_dir() and not entry.is_symlink():
                found.append(entry)
    return tuple(found)


def remove_kept(folder: Path) -> tuple[Path, ...]:
    """Remove the directories that `kept` returns, and return those that are gone."""
    found = kept(folder)
    for entry in found:
        _remove(entry)
    return tuple(entry for entry in found if not entry.exists())


@contextlib.contextmanager
def new_file(target: Path, *, tidy: bool = True) -> Iterator[Path]:
    """Yield the path of an empty file that becomes `target` when the block ends well; see `new_directory`.

    A target that is no regular file, such as a pipe or a terminal, is yielded itself. A link's target is
    replaced, and not the link. Without `tidy` drafts of killed processes stay, whose search reads the folder.
    """
    _check.path(target)
    target = Path(os.path.realpath(target))
    if target.exists() and not target.is_file():
        yield target
        return
    if tidy:
        remove_leftovers(target.parent, target.name)
    with _draft(target, directory=False) as draft:
        with _naming(target, draft):
            yield draft
        if target.exists():
            draft.chmod(target.stat().st_mode & 0o777)
        flush(draft)
        draft.replace(target)
        flush(target.parent)


@contextlib.contextmanager
def _naming(target: Path, draft: Path) -> Iterator[None]:
    """Name the target in an error of the system, and raise that error where a library has lost it.

    A full disk is an error without a file's name from Python, and one of the format from polars.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "polars":
            raise
        try:
            _write_more(draft)
        except OSError as reason:
            raise OSError(reason.errno, reason.strerror, str(target)) from error
        raise


def _write_more(draft: Path) -> None:
    """Write a little beside a draft, and remove it again."""
    path = draft.with_name(f"{draft.name}.more")
    try:
        path.write_bytes(bytes(_MORE))
    finally:
        path.unlink(missing_ok=True)


def abandon_unfinished() -> None:
    """Remove what other threads have begun to write: for a process about to end."""
    for draft in tuple(_UNFINISHED):
        # A writer may still add a file between the listing and the removal.
        for _ in range(3):
            _remove(draft)


def leftovers(folder: Path, name: str | None = None) -> tuple[Path, ...]:
    """Return the drafts in a folder that have no running writer.

    Parameters
    ----------
    folder
        Where to look, not below.
    name
        Only drafts of this file or directory.
    """
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return ()
    found = []
    for entry in entries:
        match = _NAME.fullmatch(entry.name)
        if match and name in (None, match["target"]) and not entry.is_symlink():
            with _lock(entry) as mine:
                if mine and not _is_being_replaced(entry, match["target"]):
                    found.append(entry)
    return tuple(found)


def remove_leftovers(folder: Path, name: str | None = None) -> tuple[Path, ...]:
    """Remove the drafts in a folder that have no running writer; restore what a killed one had moved away.

    Parameters
    ----------
    folder
        Where to look, not below.
    name
        Only drafts of this file or directory.

    Returns
    -------
    tuple of Path
        Those that are gone.
    """
    gone = []
    for entry in leftovers(folder, name):
        match = _NAME.fullmatch(entry.name)
        assert match is not None, "Invariant: leftovers have such names"
        # The lock is held over the removal, so that no other process takes the draft for its own meanwhile.
        with _lock(entry) as mine:
            if not mine:
                continue
            target = entry.with_name(match["target"])
            if match["kind"] == "replaced" and not target.exists():
                # The writer was killed between its two renames.
                with contextlib.suppress(OSError):
                    entry.rename(target)
            else:
                _remove(entry)
        if not entry.exists():
            gone.append(entry)
    return tuple(gone)


@contextlib.contextmanager
def _draft(target: Path, *, directory: bool) -> Iterator[Path]:
    """Yield a new draft, locked; remove it at the end if it is still a draft."""
    draft, descriptor = _locked_draft(target, directory=directory)
    _UNFINISHED.add(draft)
    try:
        yield draft
    finally:
        _remove(draft)
        _UNFINISHED.discard(draft)
        if descriptor is not None:
            os.close(descriptor)


def _locked_draft(target: Path, *, directory: bool) -> tuple[Path, int | None]:
    for _ in range(_TRIES):
        draft = target.with_name(f".{target.name}.{os.urandom(6).hex()}.partial")
        try:
            if directory:
                draft.mkdir()
            else:
                draft.touch(exist_ok=False)
            descriptor = _opened(draft)
        except FileExistsError:
            continue
        except FileNotFoundError:
            # Between its making and its lock the draft looked left behind, and another process removed it.
            if not target.parent.is_dir():
                raise
            continue
        if descriptor is None:
            return draft, None
        try:
            free = _try_lock(descriptor) is not False
            if free and draft.stat().st_ino == os.fstat(descriptor).st_ino:
                return draft, descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)
        _remove(draft)
    raise FileExistsError(errno.EEXIST, "no free name for a draft", str(target))


def _opened(path: Path) -> int | None:
    """Open a file or directory, to lock or flush it; None where the system opens no directories."""
    if sys.platform == "win32" and path.is_dir():
        return None
    return os.open(path, os.O_RDONLY)


def _try_lock(descriptor: int) -> bool | None:
    """Lock an open file or directory; return whether that was possible, None if there are no locks."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Hold the lock of a file or directory, and yield whether it was free."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        yield _try_lock(descriptor) is True
    finally:
        os.close(descriptor)


def _is_being_replaced(entry: Path, target: str) -> bool:
    """Whether a running writer moved a directory away: its draft, or its result, is locked."""
    if not entry.name.endswith(".replaced"):
        return False
    continued = entry.with_name(_KEPT.format(target))
    for place in (entry.with_suffix(".partial"), continued, entry.with_name(target)):
        if place.exists():
            with _lock(place) as free:
                if not free:
                    return True
    return False


def _put(draft: Path, target: Path, old: Path) -> None:
    """Rename `draft` to `target`; what is there is `old` until then."""
    if not target.exists():
        draft.rename(target)
        return
    target.rename(old)
    try:
        draft.rename(target)
    except BaseException:
        old.rename(target)
        raise
    _remove(old)


def _remove(path: Path) -> None:
    """Remove a file or directory, if it is there and that is allowed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Wait until a file, or a directory's entries, are on the disk."""
    descriptor = _opened(path)
    if descriptor is not None:
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
