"""Which sessions of TraceLab other sessions started, told from when they ran.

No field says it. A session is taken for the subagent of a call of the tools ``Agent`` or ``Task``, which last
until the subagent has answered, if the whole of it lies within the call, and user and project are the same.
If several calls contain it, the shortest is taken. Calls of less than ten seconds start none: they failed.
Codex's ``spawn_agent`` returns at once, so that no call of it contains anything.
Source: aiperf 0.13, dataset/loader/_tracelab_convert.py, whose rule for Claude this is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paceline.errors import TraceError
from paceline.limits import Limits
from paceline.trace.calls import SECOND
from paceline.trace.linking import Fork

__all__ = ["STARTING", "Window", "started"]

STARTING: Final = frozenset({"Agent", "Task"})
"""Tools that start a subagent and last until it has answered."""

_LEAST_NS: Final = 10 * SECOND


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A call of such a tool: length, start and end in nanoseconds, its session, and its round's call."""

    length: int
    start: int
    end: int
    session: str
    call: int


def started(
    windows: Sequence[Window],
    spans: Mapping[str, tuple[int, int]],
    owners: Mapping[str, tuple[str | None, str | None]],
    limits: Limits,
    name: str,
) -> dict[str, Fork]:
    """Return for each session that another one started the call that did.

    Parameters
    ----------
    windows
        The calls of tools that start subagents.
    spans
        When each session began and ended, in nanoseconds.
    owners
        The user and the project of each session.
    limits, name
        For the error.

    Raises
    ------
    TraceError
        There are more pairs of sessions and windows than `limits` allow.
    """
    of_owner: dict[tuple[str | None, str | None], list[Window]] = defaultdict(list)
    for window in sorted(windows):
        if window.length >= _LEAST_NS:
            of_owner[owners[window.session]].append(window)
    pairs = sum(len(of_owner[owner]) for owner in owners.values() if owner in of_owner)
    if pairs > limits.values:
        raise TraceError(f"{name}: sessions times calls of agents {limits.over('values', f'{pairs:,}')}")
    forks: dict[str, Fork] = {}
    for session, (begin, end) in spans.items():
        for window in of_owner.get(owners[session], []):
            if window.session != session and window.start <= begin and end <= window.end:
                forks[session] = Fork(parent=window.session, call=window.call)
                break
    return forks
