"""Which calls of agents waited for which: in an agent, at its start, and at its end.

In an agent, a call waited for those that had ended when it started (:class:`Intervals`). The first calls of
an agent that another one started waited for the call that started it. The first call of that other agent
after the end waited for the last calls of the agent. Calls that a file orders otherwise have their
``waits`` already.

A call that starts beside the first one of its agent, as a request for a title does, waits for nothing. It
becomes a session of its own: where clients are limited by sessions, a later turn of a session must wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.limits import Limits
from paceline.trace.calls import Call, check_edges
from paceline.trace.intervals import EVER, Intervals
from paceline.trace.rows import Rows

__all__ = ["Fork", "link_agents"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """An agent that another one started.

    Attributes
    ----------
    parent
        The agent that started it.
    call
        The call whose answer started it, as a position among all calls. None: the last that had ended.
    joins
        Whether the parent's next call after its end waited for it.
    """

    parent: str
    call: int | None = None
    joins: bool = True


def link_agents(
    calls: Sequence[Call], forks: Mapping[str, Fork], rows: Rows, limits: Limits, *, slack: int = 0
) -> None:
    """Set for each call with an agent the calls that it waited for; calls that have some keep them.

    Parameters
    ----------
    calls
        In the file's order.
    forks
        The agents that another one started.
    rows, limits
        For the error.
    slack
        Nanoseconds by which the end of a call may be after the start that waited for it.

    Raises
    ------
    TraceError
        The calls wait for more answers than `limits` allow.
    """
    own: dict[str, list[int]] = defaultdict(list)
    for at, call in enumerate(calls):
        if call.agent is not None:
            own[call.agent].append(at)
    groups = {
        agent: Intervals(ats, [calls[at].start for at in ats], [calls[at].end for at in ats], slack=slack)
        for agent, ats in own.items()
    }
    edges = 0
    for agent, ats in own.items():
        for at in ats:
            calls[at].waits = calls[at].waits or groups[agent].before(calls[at].start)
            edges += len(calls[at].waits)
            check_edges(edges, rows, limits)
    for agent, fork in forks.items():
        if agent not in groups or fork.parent not in groups or fork.parent == agent:
            continue
        _fork(calls, own[agent], groups[fork.parent], fork)
        after = groups[fork.parent].after(groups[agent].end) if fork.joins else None
        if after is not None:
            calls[after].waits = list(dict.fromkeys([*calls[after].waits, *groups[agent].before(EVER)]))
    for agent, ats in own.items():
        _set_apart(calls, ats, agent)


def _fork(calls: Sequence[Call], ats: list[int], parent: Intervals, fork: Fork) -> None:
    for at in ats:
        call = calls[at]
        if call.waits:
            continue
        begun = parent.begun(call.start) if fork.call is None else fork.call
        before = parent.before(call.start) if fork.call is None else []
        if before:
            call.waits = before
        elif begun is not None and (calls[begun].start, begun) < (call.start, at):
            call.waits = [begun]


def _set_apart(calls: Sequence[Call], ats: list[int], agent: str) -> None:
    """Give calls that wait for nothing and are not the first of their agent sessions of their own."""
    first = min(ats, key=lambda at: (calls[at].start, at))
    alone = sorted((calls[at].start, at) for at in ats if at != first and not calls[at].waits)
    for number, (_, at) in enumerate(alone, start=1):
        calls[at].agent = f"{agent}/parallel-{number}"
