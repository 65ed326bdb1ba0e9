"""Routers that hold requests, beside reports, monitors, leases and slow links."""

from __future__ import annotations

import io
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

import paceline
from paceline.errors import NoProgressError
from paceline.policy import Handover, Live, Policy, Reports, first_of, hold, inst, migrate, pick, req
from paceline.testing import check

Case = tuple[paceline.Trace, paceline.Cluster, Policy, dict[str, Any]]

# Rates that are no whole number of bytes a second, and rates at which a transfer outlasts the replay.
RATES = (1e-6, 0.1 + 1e-10, 1 / 3, 1.0, 100.0, 1e6)
# From much shorter to much longer than a step of 0.1 s.
PERIODS = (0.003, 0.1, 0.7, 30.0, 9e5)


@st.composite
def held(draw: st.DrawFn) -> Case:
    """Draw a policy whose router holds requests over a quota of the instances, and a trace with gaps."""
    size = draw(st.integers(1, 14))
    column = lambda elements: draw(st.lists(elements, min_size=size, max_size=size))  # noqa: E731
    trace = paceline.Trace.from_columns(
        arrival=np.cumsum(column(st.sampled_from([0.0, 0.0, 0.0, 0.05, 0.4, 3.0, 300.0]))),
        # A prompt of 2,000 tokens fits into no instance.
        prompt_tokens=column(st.sampled_from([1, 8, 20, 60, 2_000])),
        output_tokens=column(st.integers(1, 12)),
        tenant=column(st.sampled_from(["gold", "free", None])),
    )
    number = draw(st.integers(2, 3))
    instance = paceline.Instance(
        cost=paceline.Affine(step_s=0.1, token_s=0.001),
        num_blocks=draw(st.integers(12, 40)),
        kv_bytes=draw(st.sampled_from([1, 1_000, 100_000])),
    )
    cluster = paceline.Cluster(number * [instance], links=paceline.Links(gbps=draw(st.sampled_from(RATES))))
    load = draw(st.sampled_from([inst.requests, inst.waiting, inst.routed_requests, inst.kv_tokens]))
    some = pick(min=load, where=load < draw(st.sampled_from([0, 1, 1, 2, 3, 40])))
    rule = first_of(some, hold(blocks=draw(st.sampled_from([None, "all", "tenant"]))))
    if draw(st.booleans()):
        rule = first_of(pick(min=load, where=(load < 3) | (req.prompt_tokens < 10)), hold())
    every = {}
    if draw(st.booleans()):
        action = migrate(
            source=pick(max=inst.requests),
            target=pick(min=inst.requests),
            choose=pick(min=req.prompt_tokens),
            live=draw(st.sampled_from([None, Live(stages=2, last_blocks=1)])),
        )
        every[draw(st.sampled_from(PERIODS))] = [action]
    handover = None
    if draw(st.booleans()):
        handover = Handover(lease=draw(st.sampled_from([None, 0.01, 0.5, 20.0])))
    policy = Policy(
        name="held",
        on_arrival=rule,
        on_prefilled=draw(st.sampled_from([None, pick(min=inst.kv_tokens)])),
        reports=draw(st.sampled_from([None, *(Reports(every=period) for period in PERIODS)])),
        give_up_after=draw(st.sampled_from([None, 0.25, 5.0])),
        every=every,
        handover=handover,
    )
    limits = {"until": draw(st.sampled_from([None, 2.5, 40.0]))}
    return trace, cluster, policy, limits


def replayed(case: Case, *, leap: bool) -> paceline.Result | None:
    """Replay a case; None if it stops because no request can make progress any more."""
    trace, cluster, policy, limits = case
    try:
        return paceline.replay(trace, cluster, policy, leap=leap, **limits)
    except NoProgressError:
        return None


@settings(deadline=None)
@given(case=held())
def test_a_router_that_holds_leaps_as_it_steps_and_keeps_the_invariants(case: Case) -> None:
    leapt, stepped = (replayed(case, leap=leap) for leap in (True, False))
    assert (leapt is None) == (stepped is None)
    if leapt is None or stepped is None:
        return
    assert leapt.requests.equals(stepped.requests)
    check(leapt)
    counts = leapt.totals()
    settled = counts.finished + counts.rejected + counts.gave_up
    open_ = counts.running + counts.waiting + counts.held + counts.not_arrived
    assert settled + open_ == counts.requests
    assert open_ == 0 or case[3]["until"] is not None


@settings(deadline=None)
@given(case=held())
def test_a_result_with_rejected_and_held_requests_can_be_kept_in_every_form(case: Case) -> None:
    result = replayed(case, leap=True)
    if result is None:
        return
    requests = result.requests
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "result"
        result.save(where)
        again = [
            paceline.load_result(where),
            paceline.load_result(where, lazy=True),
            pickle.loads(pickle.dumps(result)),
        ]
        again += [pickle.loads(pickle.dumps(one)) for one in again[:2]]
        for one in again:
            assert one.requests.equals(requests)
            assert one.totals() == result.totals()
            assert one == result
    file = io.BytesIO()
    requests.write_ipc(file)
    file.seek(0)
    assert pl.read_ipc(file).equals(requests)
