"""Sessions drawn from a pool: what is cut, renamed and capped, by hand."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest

from paceline import Affine, Cluster, Concurrency, Instance, Trace, replay
from paceline.errors import TraceError
from paceline.trace import pooled

CLUSTER = Cluster([Instance(cost=Affine(step_s=0.1), num_blocks=1001)])


def agents(**further: object) -> Trace:
    """Two sessions of four and two turns, 10 s apart, and a request by itself."""
    return Trace.from_columns(
        arrival=[0, 10, 20, 30, 40, 50, 60],
        prompt_tokens=[10, 30, 50, 70, 10, 30, 5],
        output_tokens=[5] * 7,
        session=["a"] * 4 + ["b"] * 2 + [None],
        think_time=[None, 60.0, 2.0, 3.0, None, 1.0, None],
        **further,  # type: ignore[arg-type]
    )


def test_the_pool_is_gone_through_before_any_session_comes_again() -> None:
    drawn = pooled(agents(), sessions=6, in_flight=2, start=(0.0, 0.0), seed=3)
    assert Counter(drawn.frame["prompt_tokens"].to_list()) == {10: 4, 30: 4, 50: 2, 70: 2, 5: 2}
    assert drawn.dropped == {}
    assert drawn.clients == Concurrency(2, of="sessions")
    sessions = drawn.frame["session"].drop_nulls().to_list()
    assert len(set(sessions)) == 4
    assert all(name.partition("#")[0] in "ab" for name in sessions)


def test_the_first_sessions_begin_in_their_middle_and_the_others_at_their_start() -> None:
    """Half of a's span of 30 s cuts two of its turns, half of b's 10 s one; the third is a request alone."""
    drawn = pooled(agents(), sessions=6, in_flight=3, start=(0.5, 0.5))
    assert Counter(drawn.frame["prompt_tokens"].to_list()) == {10: 2, 30: 3, 50: 2, 70: 2, 5: 2}
    assert drawn.dropped == {"before the starting point of their session": 3}
    first = drawn.frame.group_by("session", maintain_order=True).first()
    assert first["think_time"].null_count() == first.height
    assert drawn.frame["think_time"].max() == 10.0


def test_a_warm_up_sends_the_turn_before_each_starting_point() -> None:
    """At 0.6 of its span a is at 18 s, 8 s after its second turn, and b at 46 s, 6 s after its first."""
    drawn = pooled(agents(), sessions=6, in_flight=3, start=(0.6, 0.6), warm_up=True)
    warm = drawn.frame.filter("warm_up")
    assert warm.select("arrival", "prompt_tokens").rows() == [(0.0, 30), (2.0, 10)]
    assert warm["think_time"].to_list() == [None, None]
    assert drawn.dropped == {"before the starting point of their session": 1}
    assert set(drawn.frame.filter(~pl.col("warm_up"))["arrival"]) == {8.0}
    rows = replay(drawn, CLUSTER).requests
    assert rows.filter(~pl.col("warm_up"))["arrival"].min() == 8.0
    # The third turn of a would have been sent 2 s after the answer to its second, at 2.5 s.
    (third,) = rows.filter((pl.col("session") == warm["session"][0]) & (pl.col("prompt_tokens") == 50))[
        "arrival"
    ]
    assert third == 8.0


def test_a_warm_up_is_as_long_as_the_cap_of_idle_gaps_at_most() -> None:
    drawn = pooled(agents(), sessions=6, in_flight=3, start=(0.6, 0.6), warm_up=True, idle_cap_s=3.0)
    assert sorted(drawn.frame["arrival"].unique()) == [0.0, 3.0]


def test_a_warm_up_of_a_fork_needs_no_sessions() -> None:
    trace = Trace.from_columns(
        arrival=[0, 4, 10],
        prompt_tokens=[1, 2, 3],
        output_tokens=[1] * 3,
        request_id=["r", "x", "y"],
        parents=[[], ["r"], ["x"]],
        delay=[None, 3.0, 3.0],
    )
    drawn = pooled(trace, sessions=1, in_flight=1, start=(0.5, 0.5), warm_up=True).frame
    assert drawn.select("request_id", "arrival", "warm_up", "parents").rows() == [
        ("x#0", 0.0, True, []),
        ("y#0", 1.0, False, ["x#0"]),
    ]


def test_a_fork_keeps_the_parents_that_are_left() -> None:
    trace = Trace.from_columns(
        arrival=[0, 1, 2, 10],
        prompt_tokens=[1, 2, 3, 4],
        output_tokens=[1] * 4,
        request_id=["r", "x", "y", "j"],
        parents=[[], ["r"], ["r"], ["x", "y"]],
        delay=[None, 40.0, 1.0, 2.0],
    )
    whole = pooled(trace, sessions=1, in_flight=1, start=(0.0, 0.0)).frame
    assert whole["parents"].to_list() == [[], ["r#0"], ["r#0"], ["x#0", "y#0"]]
    assert whole["delay"].to_list() == [None, 10.0, 1.0, 2.0]
    part = pooled(trace, sessions=1, in_flight=1, start=(0.15, 0.15)).frame
    assert part["request_id"].to_list() == ["y#0", "j#0"]
    assert part["parents"].to_list() == [[], ["y#0"]]


def test_a_session_that_comes_again_has_other_contents() -> None:
    trace = agents(prefix=[[7]] * 6 + [[]], prefix_block_tokens=5)
    drawn = pooled(trace, sessions=6, in_flight=1, start=(0.0, 0.0))
    assert drawn.frame["prefix"].list.first().drop_nulls().n_unique() == 2


def test_so_many_sessions_are_in_flight() -> None:
    result = replay(pooled(agents(), sessions=30, in_flight=4, seed=2), CLUSTER)
    rows = result.requests
    assert set(rows["status"]) == {"finished"}
    spans = (
        rows.drop_nulls("session")
        .group_by("session")
        .agg(pl.col("arrival").min().alias("start"), pl.col("finish").max().alias("end"))
    )
    assert len(spans) == 20
    most = max(
        sum(start <= moment < end for start, end in spans.select("start", "end").iter_rows())
        for moment in spans["start"].to_list()
    )
    assert most == 4


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"start": (0.5, 0.2)}, "start of pooled.* must be two shares from 0 to 1 in order"),
        ({"idle_cap_s": -1.0}, "idle_cap_s of pooled.* must be 0 or more seconds"),
    ],
)
def test_misuse_is_refused(arguments: dict[str, object], rule: str) -> None:
    with pytest.raises(TraceError, match=rule):
        pooled(agents(), sessions=1, in_flight=1, **arguments)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="needs a trace with the column session or parents"):
        pooled(Trace.from_columns(arrival=[0], prompt_tokens=[1], output_tokens=[1]), sessions=1, in_flight=1)
