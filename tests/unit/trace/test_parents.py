"""Requests that wait for others, in the schema of a trace."""

from pathlib import Path
from typing import Any

import pytest

from paceline import Trace, read_trace
from paceline.errors import TraceError, TraceWarning


def agent(**columns: Any) -> Trace:
    """Return a fork and a join: a, then b and c, then d."""
    given: dict[str, Any] = {
        "arrival": [0.0, 1.0, 2.0, 3.0],
        "prompt_tokens": [8] * 4,
        "output_tokens": [2] * 4,
        "request_id": ["a", "b", "c", "d"],
        "parents": [None, ["a"], ["a"], ["b", "c"]],
        "delay": [None, 0.5, None, 1.5],
        "not_before": [None, 2.0, None, None],
    }
    return Trace.from_columns(**given | columns)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "csv.gz"])
def test_parents_survive_being_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"agent.{suffix}"
    agent().write(path)
    assert read_trace(path) == agent()
    assert read_trace(path).sha256 == agent().sha256


def test_ids_may_be_numbers() -> None:
    trace = agent(request_id=[1, 2, 3, 4], parents=[[], [1], [1], [2, 3]])
    assert trace.frame["parents"].to_list() == [[], ["1"], ["1"], ["2", "3"]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"request_id": ["a", "b", "b", "d"]}, r"row 2 .*: request_id must be another in each row, was 'b'"),
        ({"parents": [None, ["a"], ["x"], None]}, "row 2 .*: parent 'x' is the request_id of no row"),
        ({"parents": [None, ["d"], ["a"], None]}, "row 1 .*: parent 'd' must stand before the request"),
        ({"parents": [None, ["b"], ["a"], None]}, "row 1 .*: parent 'b' must stand before the request"),
        ({"delay": [1.0, None, None, None]}, "row 0 .*: delay must be left out of a row without parents"),
        ({"delay": [None, -1.0, None, None]}, "row 1 .*: delay must be 0 or more seconds"),
        ({"not_before": [None, -1.0, None, None]}, "row 1 .*: not_before must be 0 or more seconds"),
        ({"parents": ["a", "b", "c", "d"]}, "parents must hold lists of request ids"),
    ],
)
def test_broken_rules_name_the_row(columns: dict[str, Any], message: str) -> None:
    columns = {"delay": [None] * 4, "not_before": [None] * 4} | columns
    with pytest.raises(TraceError, match=message):
        agent(**columns)


def test_rows_are_named_as_they_were_given() -> None:
    with pytest.raises(TraceError, match=r"row 1 .*: parent 'x'"):
        agent(arrival=[9.0, 5.0, 1.0, 0.0], parents=[None, ["x"], None, None], delay=[None] * 4)


@pytest.mark.parametrize("missing", ["request_id", "parents"])
def test_columns_that_need_others_say_so(missing: str) -> None:
    frame = agent().frame.drop(missing)
    with pytest.raises(TraceError, match=f"needs the column .*{missing}"):
        Trace(frame)


def test_a_part_of_a_trace_waits_for_the_parents_that_it_has() -> None:
    with pytest.warns(TraceWarning, match="2 parents are not in this part of the trace"):
        part = agent().window(1.0, 4.0)
    assert part.frame["parents"].to_list() == [[], [], ["b", "c"]]
    assert part.frame["delay"].to_list() == [None, None, 1.5]
    assert part.frame["not_before"].to_list() == [1.0, None, None]


def test_moments_are_scaled_and_spans_are_not() -> None:
    faster = agent().scaled(2.0)
    assert faster.frame["not_before"].to_list() == [None, 1.0, None, None]
    assert faster.frame["delay"].to_list() == [None, 0.5, None, 1.5]


def test_traces_end_to_end_keep_their_own_parents() -> None:
    both = Trace.concat([agent(), agent()], gap_s=1.0)
    assert both.frame["request_id"].to_list()[4:] == ["a#2", "b#2", "c#2", "d#2"]
    assert both.frame["parents"].to_list()[7] == ["b#2", "c#2"]
    assert both.frame["not_before"][5] == 6.0


def test_parents_without_output_are_lost_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    row = '{"arrival":%d,"prompt_tokens":5,"output_tokens":%d,"request_id":"%s","parents":[%s]}\n'
    path.write_text(row % (0, 0, "a", "") + row % (1, 3, "b", '"a"'))
    with pytest.warns(TraceWarning, match="1 parents have no output"):
        trace = read_trace(path)
    assert trace.frame["parents"].to_list() == [[]]
    assert dict(trace.dropped) == {"no output": 1}


def test_ids_with_spaces_are_not_written_as_csv(tmp_path: Path) -> None:
    spaced = agent(request_id=["a 1", "b", "c", "d"], parents=[None] * 4, delay=[None] * 4)
    with pytest.raises(TraceError, match=r"request_id 'a 1' has one; write \.jsonl or \.parquet"):
        spaced.write(tmp_path / "agent.csv")
