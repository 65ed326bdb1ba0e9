"""Random clients: limits of what is in flight, turns that wait for answers, and children of requests."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from differential.wire import Wire
from paceline.testing.reference.policy_sim import TraceRequest

LIMIT = st.fixed_dictionaries(
    {"most": st.sampled_from([1, 1, 2, 4]), "gap": st.sampled_from([0, 7, 40]), "by_session": st.booleans()}
)
LIMITS = st.sampled_from([True, True, False]).flatmap(lambda limited: LIMIT if limited else st.none())
TIMES = st.sampled_from([0, 0, 1, 7, 40])
MOMENTS = st.sampled_from([0, 0, 0, 30, 200])


@st.composite
def closed(draw: st.DrawFn, requests: list[TraceRequest]) -> tuple[list[TraceRequest], Wire | None]:
    """Draw what requests wait for, and a limit of what is in flight.

    Where sessions are limited, each later turn waits for an answer.
    """
    limit = draw(LIMITS)
    always = limit is not None and limit["by_session"]
    kind = draw(st.sampled_from(["turns", "turns", "children", "both", "neither"]))
    # A request that no instance can hold is rejected, and those that wait for it are never sent.
    hopeless = draw(st.sampled_from([None, None, *range(len(requests))]))
    # Sessions are numbered below the number of rows.
    names = st.sampled_from([None, *range(min(4, len(requests)))])
    turns, children = kind in ("turns", "both"), kind in ("children", "both")
    thinks = TIMES if always else st.sampled_from([TIMES, TIMES, st.none()]).flatmap(lambda one: one)
    found = []
    for row, given in enumerate(requests):
        request = replace(given, prompt_tokens=5000) if row == hopeless else given
        session = draw(names) if turns else None
        think = None if session is None else draw(thinks)
        parents: list[int] = []
        if children and row:
            parents = draw(st.lists(st.integers(max(0, row - 4), row - 1), max_size=3))
        found.append(
            replace(
                request,
                session=session,
                think=think,
                parents=tuple(parents),
                delay=draw(TIMES) if children else 0,
                not_before=draw(MOMENTS),
            )
        )
    return found, limit
