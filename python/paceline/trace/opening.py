"""A file's content, decompressed if need be.

The compression is detected from the first bytes, not from the name. The whole content
is held in memory: a trace of ten million requests is some hundreds of MB of text.
Decompression stops at the limit ``file_bytes``, before the memory is allocated.
"""

from __future__ import annotations

import contextlib
import io
import zlib
from pathlib import Path
from typing import Final

import zstandard

from paceline.errors import PacelineError, TraceError
from paceline.limits import Limits

__all__ = ["content", "decompressed"]

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"

_READ_BYTES: Final = 1 << 20

# zlib bounds what one call gives out, zstandard only what it takes in. A block of zstd that repeats one byte
# takes 4 bytes for 2**17, so that one call on this much input gives out no more than 2**28 bytes.
_GZIP_IN: Final = 1 << 18
_GZIP_OUT: Final = 1 << 22
_ZSTD_IN: Final = 1 << 13

# RFC 8878: a magic number and at most fourteen bytes of header.
_ZSTD_HEADER: Final = 18

# RFC 1952: ten bytes of header and eight of trailer, with the window size that tells zlib to expect them.
_GZIP_WINDOW: Final = 31


def content(path: Path, *, limits: Limits | None = None, error: type[PacelineError] = TraceError) -> bytes:
    """Read and decompress a file.

    Parameters
    ----------
    path
        The file: a regular one, or a pipe.
    limits
        None: :meth:`Limits.current <paceline.limits.Limits.current>`.
    error
        What to raise.

    Raises
    ------
    FileNotFoundError, PermissionError
        As the system says.
    PacelineError
        The path is no file, its compressed data is cut short or damaged, or it exceeds a limit.
    """
    limits = Limits.current() if limits is None else limits
    try:
        raw = _raw(path, limits, error)
    except (FileNotFoundError, PermissionError):
        raise
    except (OSError, ValueError) as reason:
        if isinstance(reason, PacelineError):
            raise
        raise error(f"{path}: cannot be read as a file: {reason}") from reason
    return decompressed(raw, str(path), limits, error)


def decompressed(raw: bytes, name: str, limits: Limits, error: type[PacelineError] = TraceError) -> bytes:
    """Decompress bytes that gzip or Zstandard made, and return others as they are; ``name`` is for errors.

    Raises
    ------
    PacelineError
        The compressed data is cut short or damaged, or its content exceeds a limit.
    """
    if not raw.startswith((_GZIP, _ZSTD)):
        return raw
    kind, unpack = ("gzip", _gunzip) if raw.startswith(_GZIP) else ("zstd", _unzstandard)
    sink = _Sink(name, limits, error)
    try:
        whole = unpack(raw, sink)
        unpacked = sink.getvalue()
    except (zlib.error, zstandard.ZstdError) as reason:
        raise error(f"{name}: the {kind} data is damaged: {reason}") from reason
    except MemoryError as reason:
        raise error(f"{name}: the {kind} data does not fit into memory") from reason
    if not whole:
        raise error(f"{name}: the {kind} data is cut short; fetch or copy the file again")
    return unpacked


class _Sink(io.BytesIO):
    """Collects a file's content up to the limit."""

    def __init__(self, name: str, limits: Limits, error: type[PacelineError]) -> None:
        super().__init__()
        self.limits = limits
        self.name = name
        self.error = error

    def add(self, part: bytes) -> None:
        """Append a part, or raise if the content is then too long."""
        self.expect(len(part))
        self.write(part)

    def expect(self, length: int) -> None:
        """Raise if the content is too long with `length` bytes more."""
        if self.tell() + length > self.limits.file_bytes:
            raise self.error(f"{self.name}: bytes of the content {self.limits.over('file_bytes', 'more')}")


def _raw(path: Path, limits: Limits, error: type[PacelineError]) -> bytes:
    with path.open("rb", buffering=0) as file:
        if path.is_file():
            size = path.stat().st_size
            if size > limits.file_bytes:
                raise error(f"{path}: bytes of the file {limits.over('file_bytes', f'{size:,}')}")
            return file.readall()
        sink = _Sink(str(path), limits, error)
        while part := file.read(_READ_BYTES):
            sink.add(part)
        return sink.getvalue()


def _gunzip(raw: bytes, sink: _Sink) -> bool:
    """Decompress all members; return whether the last one is whole."""
    at = 0
    while at < len(raw):
        member = zlib.decompressobj(wbits=_GZIP_WINDOW)
        waiting = b""
        while not member.eof:
            if not waiting:
                waiting = raw[at : at + _GZIP_IN]
                at += len(waiting)
                if not waiting:
                    sink.add(member.flush())
                    return member.eof
            sink.add(member.decompress(waiting, _GZIP_OUT))
            waiting = member.unconsumed_tail
        at -= len(member.unused_data)
        # Tapes and some tools fill the rest of a block with zeros, which gzip passes over.
        while at < len(raw) and raw[at] == 0:
            at += 1
    return True


def _unzstandard(raw: bytes, sink: _Sink) -> bool:
    """Decompress all frames; return whether the last one is whole."""
    at = 0
    while at < len(raw):
        # Most frames say how long their content is; one that says less than it has is damaged.
        with contextlib.suppress(zstandard.ZstdError):
            sink.expect(zstandard.frame_content_size(raw[at : at + _ZSTD_HEADER]))
        frame = zstandard.ZstdDecompressor().decompressobj()
        while not frame.eof:
            part = raw[at : at + _ZSTD_IN]
            if not part:
                return False
            at += len(part)
            sink.add(frame.decompress(part))
        at -= len(frame.unused_data)
    return True
