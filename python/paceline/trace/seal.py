"""A checksum inside a Parquet file.

polars trusts the lengths inside a Parquet file: a flipped byte can make it ask
for 2**61 bytes, which ends the process and cannot be caught. So the traces that
we write carry a hash of themselves, checked before anything is decoded.

Parquet finds its footer from the end and its pages by offsets from the start;
between the two there is room that every reader passes over, and there it is.
"""

from __future__ import annotations

import hashlib
from typing import Final

from paceline.errors import TraceError

__all__ = ["check_seal", "sealed"]

_MARK: Final = b"paceline seal 1:"
_DIGEST_BYTES: Final = 32

# The end of a Parquet file: the footer's length in four bytes, then PAR1.
_END_BYTES: Final = 8


def sealed(parquet: bytes) -> bytes:
    """Put the mark and the SHA-256 of the whole file before the footer."""
    footer = int.from_bytes(parquet[-_END_BYTES:-4], "little") + _END_BYTES
    digest = hashlib.sha256(parquet).digest()
    return parquet[:-footer] + _MARK + digest + parquet[-footer:]


def check_seal(data: bytes, name: str) -> None:
    """Refuse a file that carries a seal and is not what was sealed; one without is let through.

    Raises
    ------
    TraceError
        The file changed after it was written.
    """
    at = data.rfind(_MARK)
    if at < 0:
        return
    start, end = at + len(_MARK), at + len(_MARK) + _DIGEST_BYTES
    digest = hashlib.sha256(data[:at])
    digest.update(data[end:])
    if digest.digest() != data[start:end]:
        raise TraceError(
            f"{name}: is no readable Parquet file: it changed after it was written; fetch it again"
        )
