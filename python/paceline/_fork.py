"""Refuses to work in a process that was forked after Paceline had been used.

A fork copies memory and the thread that forks, and no other. polars runs its
work on threads of its own, which a forked process believes to have and waits
for without end. A fork before the first use is harmless, and so are processes
that are spawned or come from a fork server.
"""

from __future__ import annotations

import os

from paceline.errors import ForkError

__all__ = ["use"]

_used = False
_left_behind = False


def use() -> None:
    """Note that polars or the engine is about to be used, or refuse it.

    Raises
    ------
    ForkError
        If this process was forked after the first use.
    """
    global _used
    if _left_behind:
        raise ForkError(
            "this process was forked after Paceline had been used, and the threads that it needs were not "
            'copied: start processes by "spawn" or "forkserver", as in '
            'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")), and not by "fork"'
        )
    _used = True


def _forked() -> None:
    global _left_behind
    _left_behind = _left_behind or _used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
