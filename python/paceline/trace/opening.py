"""A file's content, whatever it is compressed with.

The compression is told by the first bytes, not by the name. The whole content
is held in memory: a trace of ten million requests is some hundreds of MB of text.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Final

import zstandard

from paceline.errors import TraceError

__all__ = ["content"]

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


def content(path: Path) -> bytes:
    """Read and decompress a file.

    Raises
    ------
    FileNotFoundError, PermissionError
        As the system says.
    TraceError
        The path is no file, or its compressed data is cut short or damaged.
    """
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, PermissionError):
        raise
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: cannot be read as a file: {error}") from error
    if raw.startswith(_GZIP):
        return _gunzipped(raw, path)
    if raw.startswith(_ZSTD):
        return _unzstandarded(raw, path)
    return raw


def _gunzipped(raw: bytes, path: Path) -> bytes:
    try:
        return gzip.decompress(raw)
    except EOFError as error:
        raise TraceError(f"{path}: the gzip data is cut short; fetch or copy the file again") from error
    except (OSError, zlib.error) as error:
        raise TraceError(f"{path}: the gzip data is damaged: {error}") from error


def _unzstandarded(raw: bytes, path: Path) -> bytes:
    parts = []
    rest = raw
    try:
        while rest:
            frame = zstandard.ZstdDecompressor().decompressobj()
            parts.append(frame.decompress(rest))
            if not frame.eof:
                raise TraceError(f"{path}: the zstd data is cut short; fetch or copy the file again")
            rest = frame.unused_data
    except (zstandard.ZstdError, MemoryError) as error:
        raise TraceError(f"{path}: the zstd data is damaged: {error}") from error
    return parts[0] if len(parts) == 1 else b"".join(parts)
