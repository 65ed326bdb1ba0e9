"""Stopping at once on Ctrl-C, and on the signals that end a process.

Python runs a signal's handler between two of its own instructions, so a long
call into native code (reading a file, writing one) would hold it up. Such calls
run on a thread while the main one waits, and waiting can be interrupted. The
engine itself looks for signals and runs on the main thread.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final, TypeVar

from paceline._jobs import Call

__all__ = ["INTERRUPTED", "Terminated", "interruptible", "listening", "stop"]

INTERRUPTED: Final = 130
"""The exit status after SIGINT: 128 and the signal's number."""

_T = TypeVar("_T")

_begun: list[Call[Any]] = []

_ENDING: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP arrived; stops whatever Ctrl-C stops.

    Parameters
    ----------
    number
        The signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """Raise `Terminated` at SIGTERM and SIGHUP inside the block, unless they are ignored or handled."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise(number: int, _: FrameType | None) -> None:
    raise Terminated(number)


def interruptible(work: Callable[[], _T]) -> _T:
    """Return what `work` returns, or raise what it raises, while Ctrl-C stays prompt."""
    call = Call(work)
    _begun.append(call)
    call.start()
    try:
        return call.result()
    finally:
        if call.ended:
            _begun.remove(call)


def stop(interrupt: KeyboardInterrupt) -> int:
    """Say that the command was stopped, and remove what it had half written.

    Returns
    -------
    int
        The exit status: 128 and the signal's number.
    """
    terminated = isinstance(interrupt, Terminated)
    status = 128 + interrupt.number if isinstance(interrupt, Terminated) else INTERRUPTED
    with contextlib.suppress(OSError):
        print(f"paceline: {'terminated' if terminated else 'interrupted'}", file=sys.stderr)
    _forget_unhandled()
    if all(call.ended for call in _begun):
        return status
    if "paceline._atomic" in sys.modules:
        from paceline._atomic import abandon_unfinished

        abandon_unfinished()
    # The thread is deep in native code; waiting for it would be what Ctrl-C is there to avoid.
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _forget_unhandled() -> None:
    """Have the process end with the status that it returns, not with SIGINT.

    CPython notes that an interrupt was not handled where it leaves the text that `exec` or `eval` runs, as
    `dataclass` and `namedtuple` do while a module is imported, and ends the process with SIGINT for it though
    the interrupt is handled later. The next text that runs takes the note back (`run_eval_code_obj` of
    Python/pythonrun.c, 3.8 to 3.14).
    """
    exec("")
