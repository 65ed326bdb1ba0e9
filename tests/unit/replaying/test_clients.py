"""Clients that wait for answers: hand-worked timelines, and the same as the arrivals that come of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from paceline import Affine, Cluster, Concurrency, ConfigError, Instance, Trace, TraceError, policies
from paceline.testing import check

TENTH = Cluster([Instance(cost=Affine(step_s=0.1), num_blocks=101)])
"""A server whose every step takes a tenth of a second."""


def chat(**columns: Any) -> Trace:
    rows = len(columns["arrival"])
    given = {"prompt_tokens": [8] * rows, "output_tokens": [1] * rows, **columns}
    return Trace.from_columns(**given)


def moments(result: paceline.Result, name: str) -> list[float]:
    return [round(moment, 9) for moment in result.requests[name].to_list()]


def test_a_turn_arrives_its_think_time_after_the_answer_before_it() -> None:
    # The first turn of a is answered at 0.3; the second comes at 0.8, the third 0.25 after its answer at 1.0.
    trace = chat(
        arrival=[0.0, 0.0, 0.1, 0.2],
        output_tokens=[3, 1, 2, 1],
        session=["a", "b", "a", "a"],
        think_time=[None, None, 0.5, 0.25],
    )
    result = paceline.replay(trace, TENTH)
    check(result)
    assert moments(result, "arrival") == [0.0, 0.0, 0.8, 1.25]
    assert moments(result, "finish") == [0.3, 0.1, 1.0, 1.35]
    assert moments(result, "ttft") == [0.1] * 4
    assert result.totals().early_turns == 0


def test_requests_beyond_the_limit_wait_for_an_end_and_the_gap() -> None:
    # Two of five start; 0.05 s after each end the next one does. A latency begins with the start.
    trace = chat(arrival=[0.0] * 5, output_tokens=[1, 4, 1, 1, 1])
    result = paceline.replay(trace, TENTH, clients=Concurrency(2, gap_s=0.05))
    check(result)
    assert moments(result, "arrival") == [0.0, 0.0, 0.15, 0.35, 0.45]
    assert moments(result, "finish") == [0.1, 0.4, 0.3, 0.5, 0.6]
    assert result.totals().finished == 5


def test_a_session_holds_its_place_until_its_last_answer() -> None:
    trace = chat(
        arrival=[0.0, 0.0, 0.0],
        session=["a", "b", "a"],
        think_time=[None, None, 1.0],
        output_tokens=[1, 1, 1],
    )
    one = paceline.replay(trace, TENTH, clients=Concurrency(1, of="sessions"))
    # Session a from 0 to 1.2, and then b.
    assert moments(one, "arrival") == [0.0, 1.2, 1.1]
    assert moments(paceline.replay(trace, TENTH, clients=Concurrency(1)), "arrival") == [0.0, 0.1, 1.1]


def test_turns_after_a_rejected_one_do_not_arrive_and_are_counted() -> None:
    trace = chat(
        arrival=[0.0, 0.1, 0.2, 0.3],
        prompt_tokens=[8, 100_000, 8, 8],
        session=["a", "b", "b", "a"],
        think_time=[None, None, 0.5, 0.5],
    )
    for clients in (None, Concurrency(3), Concurrency(3, of="sessions")):
        result = paceline.replay(trace, TENTH, clients=clients)
        check(result)
        assert result.requests["status"].to_list() == ["finished", "rejected", "not_arrived", "finished"]
        assert result.totals().not_arrived == 1


def test_a_later_turn_finds_the_answer_before_it_in_the_prefix_cache() -> None:
    columns = {"prompt_tokens": [64, 128], "output_tokens": [64, 1], "session": ["a", "a"]}
    cached = policies.vllm(prefix_caching=True)
    waits = chat(arrival=[0.0, 0.1], think_time=[None, 0.0], **columns)
    assert paceline.replay(waits, TENTH, cached).requests["cached_tokens"].to_list() == [0, 112]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"think_time": [None, 1.0]}, "think_time needs the column session"),
        ({"think_time": [None, -1.0], "session": ["a", "a"]}, "think_time must be 0 or more seconds"),
        ({"think_time": [None, 1.0], "session": ["a", None]}, "must be left out of a row without a session"),
        ({"think_time": [None, float("nan")], "session": ["a", "a"]}, "think_time must be a finite number"),
    ],
)
def test_think_times_that_mean_nothing_are_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        chat(arrival=[0.0, 1.0], **columns)


def test_limits_that_mean_nothing_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="most of a Concurrency must be a whole number of at least 1, was 0"
    ):
        Concurrency(0)
    with pytest.raises(ConfigError, match="gap_s of a Concurrency must be 0 or more"):
        Concurrency(1, gap_s=-1.0)
    with pytest.raises(TraceError, match="a later turn of a session has a think time"):
        paceline.replay(
            chat(arrival=[0.0, 1.0], session=["a", "a"]), TENTH, clients=Concurrency(1, of="sessions")
        )


def test_a_saved_result_and_a_file_keep_them(tmp_path: Path) -> None:
    trace = chat(arrival=[0.0, 0.0, 0.1], session=["a", "b", "a"], think_time=[None, None, 0.5])
    for name in ("trace.csv", "trace.jsonl", "trace.parquet"):
        trace.write(tmp_path / name)
        assert paceline.read_trace(tmp_path / name).frame.equals(trace.frame), name
    result = paceline.replay(trace, TENTH, clients=Concurrency(2), sample=0.1)
    result.save(tmp_path / "run")
    assert paceline.load_result(tmp_path / "run") == result
    assert result.provenance.settings["clients"] == repr(Concurrency(2))
    assert result.router_timeline["arrivals"].sum() == 3


@st.composite
def loads(draw: st.DrawFn) -> tuple[Trace, Concurrency | None]:
    """Draw chats, and the clients that send them."""
    rows = draw(st.integers(1, 25))
    session = draw(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=rows, max_size=rows))
    by_session = draw(st.booleans())
    thinking = st.sampled_from([0.0, 0.01, 0.3]) if by_session else st.sampled_from([None, 0.0, 0.01, 0.3])
    think = [None if name is None else draw(thinking) for name in session]
    trace = chat(
        arrival=sorted(draw(st.lists(st.sampled_from([0.0, 0.1, 0.5, 2.0]), min_size=rows, max_size=rows))),
        prompt_tokens=draw(st.lists(st.integers(1, 90), min_size=rows, max_size=rows)),
        output_tokens=draw(st.lists(st.integers(1, 30), min_size=rows, max_size=rows)),
        session=session,
        think_time=think,
    )
    most = Concurrency(
        draw(st.integers(1, 4)),
        gap_s=draw(st.sampled_from([0.0, 0.004])),
        of="sessions" if by_session else "requests",
    )
    return trace, draw(st.sampled_from([most, most, None]))


@given(load=loads(), caching=st.booleans())
def test_a_closed_loop_is_the_open_loop_of_its_arrivals_and_leaps(
    load: tuple[Trace, Concurrency | None], caching: bool
) -> None:
    trace, clients = load
    cluster = Cluster(2 * [Instance(cost=Affine(step_s=0.01, token_s=1e-4), num_blocks=12)])
    policy = policies.vllm(prefix_caching=caching, max_num_seqs=3)
    closed = paceline.replay(trace, cluster, policy, clients=clients)
    check(closed)
    stepped = paceline.replay(trace, cluster, policy, clients=clients, leap=False)
    assert closed.requests.equals(stepped.requests)
    sent = closed.requests.filter(pl.col("status") != "not_arrived")
    order = np.lexsort((np.arange(sent.height), sent["arrival"].to_numpy()))
    if np.unique(sent["arrival"].to_numpy()).size < sent.height:
        return  # requests of one moment arrive in the order in which they became ready
    frame = trace.frame.drop("think_time").filter(closed.requests["status"] != "not_arrived")
    opened = paceline.replay(
        Trace(frame.with_columns(arrival=sent["arrival"])[order], name="open"), cluster, policy
    )
    for name in ("instance", "status", "preemptions", "cached_tokens"):
        assert sent[order][name].to_list() == opened.requests[name].to_list(), name
    for name in ("scheduled", "first_token", "finish"):
        assert sent[order][name].to_list() == pytest.approx(opened.requests[name].to_list(), abs=1e-9), name


def test_a_join_waits_for_the_last_of_its_parents() -> None:
    # b and c start at 0.3 and 0.6; their answers take 0.1 and 0.3 s, so that d comes 0.2 after 0.9.
    trace = chat(
        arrival=[0.0, 0.0, 0.0, 0.0],
        output_tokens=[1, 1, 3, 1],
        request_id=["a", "b", "c", "d"],
        parents=[[], ["a"], ["a"], ["b", "c"]],
        delay=[None, 0.2, None, 0.2],
        not_before=[None, None, 0.6, None],
    )
    result = paceline.replay(trace, TENTH)
    check(result)
    assert moments(result, "arrival") == [0.0, 0.3, 0.6, 1.1]
    assert moments(result, "finish") == [0.1, 0.4, 0.9, 1.2]


def test_a_request_whose_parent_is_rejected_does_not_arrive() -> None:
    trace = chat(
        arrival=[0.0, 0.0, 0.0],
        prompt_tokens=[9_999, 8, 8],
        request_id=["a", "b", "c"],
        parents=[[], ["a"], ["b"]],
    )
    result = paceline.replay(trace, TENTH)
    check(result)
    assert result.requests["status"].cast(pl.String).to_list() == ["rejected", "not_arrived", "not_arrived"]
    assert result.totals().not_arrived == 2


def test_an_agent_and_its_helpers_are_one_session() -> None:
    trace = chat(
        arrival=[0.0] * 4,
        request_id=["a", "b", "c", "d"],
        parents=[[], ["a"], ["b"], []],
        delay=[None, 1.0, 1.0, None],
    )
    result = paceline.replay(trace, TENTH, clients=Concurrency(1, of="sessions"))
    check(result)
    assert moments(result, "arrival") == [0.0, 1.1, 2.2, 2.3]
