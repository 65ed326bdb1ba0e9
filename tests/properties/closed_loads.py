"""Random traces whose requests wait for answers, and clients that send them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from paceline import Affine, Cluster, Concurrency, Instance, Trace, policies, replay
from paceline.policy import Policy
from paceline.result import Result

TIMES = st.sampled_from([0.0, 0.001, 0.02, 0.3])
MOMENTS = st.sampled_from([0.0, 0.0, 0.1, 0.5, 2.0])
HOPELESS = 100_000
"""Tokens of a prompt that no instance can hold."""

CLUSTER = Cluster(2 * [Instance(cost=Affine(step_s=0.01, token_s=1e-4), num_blocks=12)])
POLICY = policies.vllm(max_num_seqs=3)


@st.composite
def limits(draw: st.DrawFn) -> Concurrency:
    return Concurrency(
        draw(st.integers(1, 4)),
        gap_s=draw(st.sampled_from([0.0, 0.004, 0.1])),
        of=draw(st.sampled_from(["requests", "sessions"])),
    )


@st.composite
def closed_loads(draw: st.DrawFn, *, apart: bool = False) -> tuple[dict[str, list[Any]], Concurrency | None]:
    """Draw the columns of a trace, sorted by arrival, and a limit of what is in flight.

    ``apart`` keeps any two requests from arriving at the same moment. Sessions are limited only where all
    later turns wait. Some requests are rejected.
    """
    rows = draw(st.integers(1, 20))
    limit = draw(st.none() | limits())
    always = limit is not None and limit.of == "sessions"
    session = draw(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=rows, max_size=rows))
    thinking = TIMES if always else st.none() | TIMES
    columns: dict[str, list[Any]] = {
        "arrival": sorted(draw(st.lists(MOMENTS, min_size=rows, max_size=rows))),
        "prompt_tokens": draw(
            st.lists(st.sampled_from([5, 20, 60, 60, 90, HOPELESS]), min_size=rows, max_size=rows)
        ),
        "output_tokens": draw(st.lists(st.integers(1, 30), min_size=rows, max_size=rows)),
        "session": session,
        "think_time": [None if name is None else draw(thinking) for name in session],
        "request_id": [f"r{row}" for row in range(rows)],
        "not_before": [draw(st.none() | MOMENTS) for _ in range(rows)],
        "parents": [],
    }
    if apart:
        columns["arrival"] = [at + row / 1000 for row, at in enumerate(columns["arrival"])]
    for row in range(rows):
        near = st.integers(max(0, row - 4), max(row - 1, 0))
        chosen = draw(st.sets(near, max_size=2)) if row and draw(st.booleans()) else set()
        columns["parents"].append([f"r{parent}" for parent in sorted(chosen)])
    columns["delay"] = [draw(st.none() | TIMES) if parents else None for parents in columns["parents"]]
    return columns, limit


def replayed(columns: dict[str, list[Any]], clients: Concurrency | None, policy: Policy = POLICY) -> Result:
    return replay(Trace.from_columns(**columns), CLUSTER, policy, clients=clients)


def waits_for(columns: dict[str, list[Any]]) -> list[list[tuple[int, float]]]:
    """Return the rows for whose answers each row waits, and the seconds after each."""
    latest: dict[str, int] = {}
    found: list[list[tuple[int, float]]] = []
    for row, session in enumerate(columns["session"]):
        think = columns["think_time"][row]
        waits = [(latest[session], think)] if think is not None and session in latest else []
        delay = columns["delay"][row] or 0.0
        found.append(waits + [(int(parent[1:]), delay) for parent in columns["parents"][row]])
        if session is not None:
            latest[session] = row
    return found
