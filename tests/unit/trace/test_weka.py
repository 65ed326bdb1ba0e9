"""Plays of coding agents. Expected values are worked out by hand from `PLAY`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from paceline import Cluster, Instance, replay
from paceline.errors import TraceError
from paceline.trace import read_trace

from .conftest import Written


def request(t: float, prompt: int, ids: list[int], **more: Any) -> dict[str, Any]:
    return {"t": t, "type": "n", "model": "m", "in": prompt, "out": 5, "hash_ids": ids} | more


def subagent(t: float, requests: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    made = {"t": t, "type": "subagent", "agent_id": "agent_001", "subagent_type": "Explore"}
    return made | {"status": "completed", "requests": requests, "models": ["m"]} | more


# Ends: 2.0; in the subagent 4.0 and 7.0; 11.0; 20.5.
PLAY: dict[str, Any] = {
    "id": "play",
    "models": ["m"],
    "block_size": 64,
    "hash_id_scope": "local",
    "requests": [
        request(0.0, 128, [0, 1], api_time=2.0, type="s", ttft=0.4),
        subagent(
            2.5,
            [request(3.0, 64, [0], api_time=1.0), request(5.5, 128, [0, 7], api_time=1.5)],
        ),
        request(9.0, 192, [0, 1, 2], api_time=2.0),
        request(20.0, 192, [0, 1, 2], api_time=0.5),
    ],
}


def lines(*plays: dict[str, Any]) -> str:
    return "\n".join(json.dumps(play) for play in plays)


def test_a_subagent_is_a_session_that_forks_at_its_marker_and_joins(written: Written) -> None:
    trace = read_trace(written(lines(PLAY), "plays.jsonl"))
    frame = trace.frame
    assert trace.source.kind == "weka"
    assert frame["session"].to_list() == ["play", "play/agent_001", "play/agent_001", "play", "play"]
    assert frame["arrival"].to_list() == [0.0, 3.0, 5.5, 9.0, 20.0]
    assert frame["parents"].to_list() == [[], ["play:1"], [], ["play:1", "play/agent_001:2"], []]
    assert frame["delay"].to_list() == [None, 1.0, None, 2.0, None]
    assert frame["think_time"].to_list() == [None, None, 1.5, None, 9.0]
    assert frame["measured_ttft"].to_list() == [0.4, None, None, None, None]
    assert frame["measured_e2e"].to_list() == [2.0, 1.0, 1.5, 2.0, 0.5]


def test_ids_of_two_plays_are_different_and_in_a_play_they_are_shared(written: Written) -> None:
    other = PLAY | {"id": "other"}
    trace = read_trace(written(lines(PLAY, other), "plays.jsonl"))
    ids = {
        session: set(group["prefix"].explode(empty_as_null=False).to_list())
        for (session,), group in trace.frame.group_by("session")
    }
    assert trace.prefix_block_tokens == 64
    assert ids["play"] | ids["play/agent_001"] == {0, 1, 2, 3}
    assert len(ids["play"] & ids["play/agent_001"]) == 1
    assert not (ids["play"] | ids["play/agent_001"]) & (ids["other"] | ids["other/agent_001"])


def test_global_ids_are_kept(written: Written) -> None:
    frame = read_trace(written(lines(PLAY | {"hash_id_scope": "global"}), "p.jsonl")).frame
    assert frame["prefix"].to_list() == [[0, 1], [0], [0, 7], [0, 1, 2], [0, 1, 2]]


def test_times_from_the_marker_are_told_by_one_request_before_it(written: Written) -> None:
    relative = json.loads(json.dumps(PLAY))
    for inner in relative["requests"][1]["requests"]:
        inner["t"] -= 2.5  # 0.5 and 3.0, of which 0.5 is before the marker
    # A second play whose subagent does not tell: all of its requests are after the marker either way.
    vague = {"id": "b", "requests": [request(0.0, 64, [0]), subagent(0.1, [request(0.2, 64, [0])])]}
    frame = read_trace(written(lines(relative, vague), "p.jsonl")).frame
    of_play = frame.filter(frame["session"].str.starts_with("play"))
    assert of_play["arrival"].to_list() == [0.0, 3.0, 5.5, 9.0, 20.0]
    assert frame.filter(frame["session"] == "b/agent_001")["arrival"].to_list() == pytest.approx([0.3])


def test_a_subagent_in_the_background_is_not_waited_for(written: Written) -> None:
    play = json.loads(json.dumps(PLAY))
    play["requests"][1]["status"] = "async_launched"
    frame = read_trace(written(lines(play), "p.jsonl")).frame
    assert frame["parents"].to_list() == [[], ["play:1"], [], [], []]
    assert frame["think_time"].to_list() == [None, None, 1.5, 7.0, 9.0]


def test_without_api_time_the_next_think_time_says_when_a_request_ended(written: Written) -> None:
    play = {
        "id": "p",
        "requests": [
            request(0.0, 64, []),
            request(10.0, 64, [], think_time=3.0),
            request(14.0, 64, []),
        ],
    }
    frame = read_trace(written(lines(play), "p.jsonl")).frame
    # The second has neither an api_time nor a think_time after it: its gap counts from its start.
    assert frame["think_time"].to_list() == [None, 3.0, 4.0]
    assert "prefix" not in frame.columns


def test_requests_that_overlap_do_not_wait_for_each_other(written: Written) -> None:
    play = {
        "id": "p",
        "requests": [
            request(0.0, 64, [], api_time=1.0),
            request(2.0, 64, [], api_time=5.0),
            request(3.0, 64, [], api_time=1.0),
            request(8.0, 64, [], api_time=1.0),
        ],
    }
    frame = read_trace(written(lines(play), "p.jsonl")).frame
    assert frame["parents"].to_list() == [[], [], ["p:1"], ["p:3", "p:2"]]
    assert frame["think_time"].to_list() == [None, 1.0, None, None]
    assert frame["delay"].to_list() == [None, None, 2.0, 1.0]


def test_a_call_beside_the_first_of_its_play_is_a_session_of_its_own(written: Written) -> None:
    play = {
        "id": "p",
        "requests": [
            request(0.0, 640, [], api_time=2.0),
            request(0.1, 64, [], api_time=0.5),
            request(3.0, 704, [], api_time=1.0),
        ],
    }
    trace = read_trace(written(lines(play, play | {"id": "q"}), "p.jsonl"))
    assert trace.frame.filter(trace.frame["session"].str.starts_with("p"))["session"].to_list() == [
        *("p", "p/parallel-1", "p"),
    ]
    assert trace.frame["parents"].to_list() == [
        *([], [], [], [], ["p:2", "p:1"], ["q:2", "q:1"]),
    ]
    result = replay(trace, Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")])).requests
    assert result["arrival"][:4].to_list() == [0.0, 0.0, 0.1, 0.1]
    for name, at in (("p", 4), ("q", 5)):
        before = result.filter(result["session"].str.starts_with(name))["finish"][:2]
        assert result["arrival"][at] == pytest.approx(before.max() + 1.0)


def test_one_play_in_a_file_over_several_lines(written: Written) -> None:
    whole = read_trace(written(json.dumps(PLAY, indent=2), "play.json"))
    assert whole == read_trace(written(lines(PLAY), "play.jsonl"))
    assert whole.name == "play"


def test_recorded_arrivals_let_plays_start_together(written: Written) -> None:
    trace = read_trace(written(lines(PLAY, PLAY | {"id": "b"}), "p.jsonl"), arrivals="recorded")
    assert trace.frame["arrival"].to_list() == [0.0, 0.0, 3.0, 3.0, 5.5, 5.5, 9.0, 9.0, 20.0, 20.0]
    assert not {"parents", "think_time", "delay"} & set(trace.frame.columns)


def test_two_plays_of_one_name_are_two_sessions(written: Written) -> None:
    frame = read_trace(written(lines(PLAY, PLAY), "p.jsonl")).frame
    assert frame["session"].n_unique() == 4
    assert frame["request_id"].n_unique() == 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hash_id_scope": "elsewhere"}, "line 2: hash_id_scope must be"),
        ({"block_size": 16}, r"block_size must be the same in all plays, was \[16, 64\]"),
        ({"requests": [{"t": 0.0, "in": 5}]}, r"line 2, requests\[0\]: a request must have in and out"),
        ({"requests": [request(1e300, 5, [])]}, "line 2: t must be a time"),
        ({"requests": [request(0.0, 5, [-1])]}, "line 2: hash_ids must hold ids from 0"),
        ({"requests": [request(0.0, 0, [])]}, r"line 2, requests\[0\]: prompt_tokens must be at least 1"),
        ({"requests": [request(0.0, 64, [1, 2])]}, r"line 2, requests\[0\]: prefix must not have more ids"),
    ],
)
def test_a_play_that_breaks_a_rule_is_named_by_its_line(
    written: Written, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        read_trace(written(lines(PLAY, PLAY | {"id": "b"} | change), "p.jsonl"))
