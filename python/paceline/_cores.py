"""How many threads replay at a time."""

from __future__ import annotations

import os
import threading
from typing import Final

from paceline.errors import ConfigError

__all__ = ["ENVIRONMENT", "threads", "threads_of_one"]

ENVIRONMENT: Final = "PACELINE_THREADS"
"""The environment variable with the number of threads, where no argument says it."""

_FEWEST: Final = 20_000
"""Requests from which on a replay is worth more than one thread."""


def threads(workers: int | None) -> int:
    """Return how many replays run at a time.

    These are `workers`; without that, what the environment variable ``PACELINE_THREADS`` says; without that,
    one for each core that this process may use.

    Raises
    ------
    ConfigError
        If ``workers``, or the variable, is no whole number of at least 1.

    Examples
    --------
    >>> threads(3)
    3
    """
    if workers is not None:
        if workers < 1:
            raise ConfigError(f"workers must be 1 or more, was {workers}")
        return workers
    given = _given()
    if given is not None:
        return given
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_of_one(requests: int) -> int:
    """Return how many threads one replay of so many requests takes, if nothing couples its instances.

    That is one on any thread but the main thread, since others are of callers that replay several traces at a
    time; and one for few requests, unless ``PACELINE_THREADS`` is set.

    Raises
    ------
    ConfigError
        As for `threads`.
    """
    if threading.current_thread() is not threading.main_thread():
        return 1
    return threads(None) if requests >= _FEWEST or _given() is not None else 1


def _given() -> int | None:
    """Return the number that the environment says, if it says one."""
    text = os.environ.get(ENVIRONMENT, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 6 and int(text) > 0):
        raise ConfigError(f"{ENVIRONMENT} must be a whole number of at least 1, was {text[:60]!r}")
    return int(text)
