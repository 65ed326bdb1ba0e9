"""Which calls of a tree of spans waited for which.

Spans with the same parent are siblings; those without one are siblings in their conversation. A span waited
for the siblings that had ended when it started (:class:`Intervals`), hence its first calls for the last
calls in them; a sibling without calls, such as a tool, passes on what it waited for itself. If no sibling
had ended, the span waited for its parent, if that is a call that had ended, and else for what its parent
waited for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.errors import TraceError
from paceline.limits import Limits
from paceline.trace.calls import check_edges
from paceline.trace.intervals import EVER, Intervals
from paceline.trace.rows import Rows

__all__ = ["Span", "link_spans"]


@dataclass(slots=True, kw_only=True)
class Span:
    """One span, with its moments in nanoseconds.

    Attributes
    ----------
    generates
        Whether it is a call of a model.
    group
        Its conversation.
    row, place
        Where the file has it, for messages.
    """

    trace: str
    id: str
    parent: str | None
    start: int
    end: int
    attributes: dict[str, Any] = field(default_factory=dict)
    generates: bool = False
    group: str = ""
    row: int = 0
    place: str = ""


def link_spans(
    spans: Sequence[Span], groups: Sequence[str], rows: Rows, limits: Limits
) -> tuple[list[list[int]], set[int]]:
    """Return for each span the calls that it waited for, and the calls that only wrap others.

    Parameters
    ----------
    spans
        In the file's order; `Span.group` is set here.
    groups
        The conversation of each.
    rows, limits
        For errors.

    Raises
    ------
    TraceError
        Two spans of a trace have one id, parents go round in a circle, or the spans wait for more calls than
        `limits` allow.
    """
    tree = _Tree(spans, groups, rows)
    wrappers = tree.wrappers()
    calls = [span.generates and at not in wrappers for at, span in enumerate(spans)]
    entered, edges = tree.entered(calls, rows, limits)
    waits: list[list[int]] = [[] for _ in spans]
    for at in tree.order:
        parent = tree.parents[at]
        if not entered[at] and parent is not None:
            ended = calls[parent] and spans[parent].end <= spans[at].start
            entered[at] = [parent] if ended else entered[parent]
            edges += len(entered[at])
            check_edges(edges, rows, limits)
        if calls[at]:
            waits[at] = [call for call in entered[at] if _ended(spans[call]) <= spans[at].start]
    return waits, wrappers


def _ended(span: Span) -> int:
    return max(span.start + 1, span.end)


class _Tree:
    """Spans with their parents and siblings; `order` has parents before their children."""

    def __init__(self, spans: Sequence[Span], groups: Sequence[str], rows: Rows) -> None:
        self._spans = spans
        known: dict[tuple[str, str], int] = {}
        for at, span in enumerate(spans):
            span.group = groups[at]
            if known.setdefault((span.trace, span.id), at) != at:
                raise TraceError(
                    f"{rows.locate(span.row)}{span.place}: the id of a span must be unique in its trace, was "
                    f"{span.id!r} again"
                )
        self.parents = [
            None if span.parent is None else known.get((span.trace, span.parent)) for span in spans
        ]
        self._children: dict[int, list[int]] = defaultdict(list)
        self._roots: dict[str, list[int]] = defaultdict(list)
        for at, parent in enumerate(self.parents):
            if parent is None:
                self._roots[groups[at]].append(at)
            else:
                self._children[parent].append(at)
        self.order = [at for roots in self._roots.values() for at in roots]
        for at in self.order:
            self.order.extend(self._children.get(at, ()))
        if len(self.order) < len(spans):
            lost = min(set(range(len(spans))) - set(self.order))
            raise TraceError(
                f"{rows.locate(spans[lost].row)}{spans[lost].place}: parents of spans must not go round in a "
                f"circle, as those of {spans[lost].id!r} do"
            )

    def wrappers(self) -> set[int]:
        """Return the calls inside which another call ran."""
        spans = self._spans
        holds = [False] * len(spans)
        wrappers = set()
        for at in reversed(self.order):
            for child in self._children.get(at, ()):
                inside = spans[child].start >= spans[at].start and spans[child].end <= spans[at].end
                holds[at] = holds[at] or (inside and (spans[child].generates or holds[child]))
            if holds[at] and spans[at].generates:
                wrappers.add(at)
        return wrappers

    def entered(self, calls: Sequence[bool], rows: Rows, limits: Limits) -> tuple[list[list[int]], int]:
        """Return for each span the last calls in the siblings that it waited for, and how many these are."""
        entered: list[list[int]] = [[] for _ in self._spans]
        left: list[list[int]] = [[] for _ in self._spans]
        edges = 0
        for parent in (*reversed(self.order), None):
            groups = self._roots.values() if parent is None else [self._children.get(parent, [])]
            for siblings in groups:
                times = self._times(siblings)
                for at in sorted(siblings, key=lambda at: (self._spans[at].start, at)):
                    entered[at] = _united(left, times.before(self._spans[at].start))
                    left[at] = left[at] or entered[at]
                    edges += len(entered[at])
                    check_edges(edges, rows, limits)
                if parent is not None:
                    left[parent] = _united(left, times.before(EVER)) or ([parent] if calls[parent] else [])
        return entered, edges

    def _times(self, siblings: Sequence[int]) -> Intervals:
        starts = [self._spans[at].start for at in siblings]
        return Intervals(siblings, starts, [self._spans[at].end for at in siblings])


def _united(lists: Sequence[list[int]], members: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(call for member in members for call in lists[member]))
