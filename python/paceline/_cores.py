"""How many threads replay at a time."""

from __future__ import annotations

import os

from paceline.errors import ConfigError

__all__ = ["threads"]


def threads(workers: int | None) -> int:
    """Return a number of threads: `workers`, or one for each core that this process may use.

    Raises
    ------
    ConfigError
        If ``workers`` is below 1.

    Examples
    --------
    >>> threads(3)
    3
    """
    if workers is not None:
        if workers < 1:
            raise ConfigError(f"workers must be 1 or more, was {workers}")
        return workers
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
