"""Bounds on time and memory of this process, and the place of the last panic.

A replay that never ends is interrupted between two slices of the engine. If it is stuck inside a decision,
the system ends the process (SIGXCPU), which the parent process sees. Both bounds are on processor time, so
that they hold on a busy machine.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

HARD_S = 10
MEMORY = 2 << 30

_log: int | None = None


class Hang(BaseException):
    """A replay took longer than any small case should."""


def interrupt(_: int, __: object) -> None:
    """Raise that the time is over, as the handler of its signal."""
    raise Hang


def prepare() -> None:
    """Bound the memory of this process, and keep what is written on standard error."""
    global _log
    signal.signal(signal.SIGVTALRM, interrupt)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, resource.RLIM_INFINITY))
    _log = os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR)
    os.dup2(_log, 2)


def _address_space() -> int:
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - no file of ours
        return int(statm.read().split()[0]) * resource.getpagesize()


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Bound the processor time of what runs inside."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + HARD_S, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def last_panic() -> str:
    """Return where the engine panicked last, and forget it."""
    if _log is None:
        return ""
    size = os.lseek(_log, 0, os.SEEK_END)
    text = os.pread(_log, min(size, 20_000), max(0, size - 20_000)).decode(errors="replace")
    os.ftruncate(_log, 0)
    os.lseek(_log, 0, os.SEEK_SET)
    places = re.findall(r"panicked at ([^\s:]+):(\d+)", text)
    return f" at {places[-1][0]}:{places[-1][1]}" if places else ""
