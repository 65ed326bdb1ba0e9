"""Parquet of other tools, parsed where a crash cannot take this process along.

polars trusts the lengths inside a Parquet file: one flipped byte can make it ask for 2**61 bytes, which
aborts the process and cannot be caught. A file that is not known to be whole is therefore parsed in a child
process first, and only then here. The child starts at the first such file and stays for the next ones. Files
that Paceline wrote carry a checksum (:mod:`paceline.trace.seal`), and need no child.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import struct
import subprocess
import sys
import threading
from multiprocessing import spawn
from pathlib import Path
from typing import Any, Final

import polars as pl

from paceline import _parquet_child
from paceline.errors import PacelineError
from paceline.limits import Limits

__all__ = ["check_foreign", "parse", "read_foreign"]

_TIMEOUT_S: Final = 300.0

# What polars maps without any data, its threads' stacks and arenas included, is below 2 GiB.
_BASE_BYTES: Final = 2**33


def read_foreign(
    data: bytes, name: str, *, error: type[PacelineError], limits: Limits | None = None
) -> pl.DataFrame:
    """Parse the bytes of a Parquet file that may be damaged or hostile.

    Parameters
    ----------
    data
        The file's content.
    name
        What errors call it.
    error
        What to raise.
    limits
        None: :meth:`Limits.current <paceline.limits.Limits.current>`.

    Raises
    ------
    PacelineError
        If it is no Parquet file that polars can read, or exceeds a limit.
    """
    check_foreign(data, name, error=error, limits=limits)
    return parse(data, name, error=error)


def parse(data: bytes, name: str, *, error: type[PacelineError]) -> pl.DataFrame:
    """Parse the bytes of a Parquet file that is known to be whole.

    Raises
    ------
    PacelineError
        If polars cannot read it.
    """
    try:
        return pl.read_parquet(io.BytesIO(data))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, MemoryError) as reason:
        raise error(f"{name}: is no readable Parquet file: {reason}") from reason


def check_foreign(
    data: bytes, name: str, *, error: type[PacelineError], limits: Limits | None = None
) -> None:
    """Parse the bytes of a Parquet file in a child process, and raise its error; see `read_foreign`."""
    limits = Limits.current() if limits is None else limits
    if len(data) < 12 or not (data.startswith(b"PAR1") and data.endswith(b"PAR1")):
        raise error(
            f"{name}: is no readable Parquet file: must start and end with PAR1; fetch or copy it again"
        )
    try:
        answer = _CHILD.ask(data, limits)
    except OSError as reason:
        raise error(f"{name}: cannot be checked, as no process can be started: {reason}") from reason
    if "limit" in answer:
        limit = str(answer["limit"])
        what = "columns" if limit == "columns" else "rows times columns"
        raise error(f"{name}: {what} {limits.over(limit, format(answer['was'], ','))}")
    if "error" in answer:
        raise error(f"{name}: is no readable Parquet file: {answer['error']}")


class _Child:
    """The child process, started when it is first needed and again when it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._of_others: list[subprocess.Popen[bytes]] = []

    def ask(self, data: bytes, limits: Limits) -> dict[str, Any]:
        """Return the child's answer, or an error if the child ends or hangs over the file."""
        header = struct.pack(
            _parquet_child.HEADER, len(data), min(limits.values, 2**63), min(limits.columns, 2**63)
        )
        with self._lock:
            process = self._started(limits)
            assert process.stdin is not None
            assert process.stdout is not None
            timer = threading.Timer(_TIMEOUT_S, process.kill)
            timer.daemon = True
            timer.start()
            line = b""
            try:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(header)
                    process.stdin.write(data)
                    process.stdin.flush()
                    line = process.stdout.readline()
            except BaseException:
                # A request was sent in part: the next one must not get its answer.
                process.kill()
                raise
            finally:
                timer.cancel()
            if line.endswith(b"\n"):
                answer: dict[str, Any] = json.loads(line)
                return answer
            status = process.wait()
            self.close()
        if status < 0:
            return {"error": f"it ends the process that reads it (signal {-status}); fetch or copy it again"}
        return {"error": f"it ends the process that reads it (exit status {status})"}

    def close(self) -> None:
        """End the child if it is this process's own."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def _started(self, limits: Limits) -> subprocess.Popen[bytes]:
        if self._process is not None and self._owner != os.getpid():
            # This process was forked, and the child answers the one that it was forked from.
            self._of_others.append(self._process)
            self._process = None
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            executable = os.fsdecode(spawn.get_executable() or sys.executable)
            script = str(Path(_parquet_child.__file__))
            path = json.dumps([entry or str(Path.cwd()) for entry in sys.path])
            most = str(min(_BASE_BYTES + 4 * limits.file_bytes, 2**62))
            self._process = subprocess.Popen(
                [executable, "-I", "-S", script, path, most],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the parent, which then ends this one
            )
            self._owner = os.getpid()
        return self._process


_CHILD: Final = _Child()
atexit.register(_CHILD.close)
