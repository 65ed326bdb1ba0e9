"""A checksum inside a Parquet file.

polars trusts the lengths inside a Parquet file: a flipped byte can make it ask
for 2**61 bytes, which ends the process and cannot be caught. So the traces and
profiles that we write carry a hash of themselves, checked before anything is
decoded. The hash is of damage, not of intent: it has no key. A file without one
is parsed in another process first (:mod:`paceline._parquet`).

Parquet finds its footer from the end and its pages by offsets from the start;
between the two there is room that every reader passes over, and there it is.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from paceline.errors import PacelineError, TraceError

__all__ = ["check_seal", "check_sealed_file", "sealed"]

_MARK: Final = b"paceline seal 1:"
_DIGEST_BYTES: Final = 32

# The end of a Parquet file: the footer's length in four bytes, then PAR1.
_END_BYTES: Final = 8

_BLOCK: Final = 1 << 20


def sealed(parquet: bytes) -> bytes:
    """Put the mark and the SHA-256 of the whole file before the footer."""
    footer = int.from_bytes(parquet[-_END_BYTES:-4], "little") + _END_BYTES
    digest = hashlib.sha256(parquet).digest()
    return parquet[:-footer] + _MARK + digest + parquet[-footer:]


def check_seal(data: bytes, name: str, *, error: type[PacelineError] = TraceError) -> bool:
    """Return whether a file carries a seal, and refuse one that is not what was sealed.

    Raises
    ------
    PacelineError
        The file changed after it was written; of the type `error`.
    """
    at = data.rfind(_MARK)
    if at < 0:
        return False
    start, end = at + len(_MARK), at + len(_MARK) + _DIGEST_BYTES
    digest = hashlib.sha256(data[:at])
    digest.update(data[end:])
    if digest.digest() != data[start:end]:
        raise error(f"{name}: is no readable Parquet file: it changed after it was written; fetch it again")
    return True


def check_sealed_file(path: Path) -> bool:
    """Return whether a file carries a seal, and refuse one that is not what was sealed; reads it in blocks.

    Raises
    ------
    TraceError
        The file changed after it was written.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END_BYTES))
        footer = int.from_bytes(file.read(_END_BYTES)[:4], "little") + _END_BYTES
        at = size - footer - _DIGEST_BYTES - len(_MARK)
        if at < 0:
            return False
        file.seek(at)
        if file.read(len(_MARK)) != _MARK:
            return False
        kept, digest = file.read(_DIGEST_BYTES), hashlib.sha256()
        file.seek(0)
        for left in (at, footer):
            while left and (block := file.read(min(left, _BLOCK))):
                digest.update(block)
                left -= len(block)
            file.seek(size - footer)
    if digest.digest() != kept:
        raise TraceError(
            f"{path}: is no readable Parquet file: it changed after it was written; fetch it again"
        )
    return True
