"""Stopping at once on Ctrl-C.

Python runs a signal's handler between two of its own instructions, so a long
call into native code (reading a file, writing one) would hold it up. Such calls
run on a thread while the main one waits, and waiting can be interrupted. The
engine itself looks for signals and runs on the main thread.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Final, TypeVar

__all__ = ["INTERRUPTED", "interruptible", "stop"]

INTERRUPTED: Final = 130
"""The exit status after SIGINT: 128 and the signal's number."""

_T = TypeVar("_T")

# Not threads: an interrupted join makes Python 3.11 and 3.12 believe that the thread has ended.
_unfinished: set[threading.Event] = set()


def interruptible(work: Callable[[], _T]) -> _T:
    """Return what `work` returns, or raise what it raises, while Ctrl-C stays prompt."""
    answers: list[_T] = []
    errors: list[BaseException] = []
    finished = threading.Event()

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as error:  # handed to the waiting thread, whatever it is
            errors.append(error)
        finished.set()

    _unfinished.add(finished)
    threading.Thread(target=run, daemon=True).start()
    # A wait without a timeout cannot be interrupted on every platform.
    while not finished.wait(0.05):
        pass
    _unfinished.discard(finished)
    if errors:
        raise errors[0]
    return answers[0]


def stop() -> int:
    """Say that the command was interrupted, and remove what it had half written."""
    print("paceline: interrupted", file=sys.stderr)
    if all(work.is_set() for work in _unfinished):
        return INTERRUPTED
    if "paceline.result.atomic" in sys.modules:
        from paceline.result.atomic import abandon_unfinished

        abandon_unfinished()
    # The thread is deep in native code; waiting for it would be what Ctrl-C is there to avoid.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)
