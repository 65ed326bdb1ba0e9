"""A saved sketch whose numbers contradict one another is refused, whatever its checksum says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline import Cluster, Instance, Trace
from paceline.errors import ResultError
from paceline.result import load_result
from paceline.result.manifest import file_entry, read_manifest, write_manifest


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    trace = Trace.from_columns(arrival=[0.0, 1.0], prompt_tokens=[50, 600], output_tokens=[70, 80])
    cluster = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    return paceline.replay(trace, cluster).save(tmp_path / "run")


def change(saved: Path, **fields: Any) -> None:
    """Change fields of the sketch, and make its checksums again."""
    path = saved / "itl.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **fields}))
    body = read_manifest(saved)
    body["files"]["itl.json"] = file_entry(path)
    write_manifest(saved, body)


def test_an_unchanged_sketch_is_read(saved: Path) -> None:
    change(saved)
    assert load_result(saved).itl.count == 148


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"min": 10**9, "max": 5}, "itl.json: min must be at most max, was 1,000,000,000 and 5"),
        ({"max": 2**64 - 1}, "buckets must run from that of min to that of max"),
        ({"min": 0}, "buckets must run from that of min to that of max"),
        ({"count": 5}, "count must be the sum over buckets, 148, was 5"),
        ({"sum": "1"}, "sum must lie between count times min and count times max, was 1"),
        ({"sum_of_squares": "0"}, "sum_of_squares must fit"),
        ({"sum": "x"}, "not a sketch"),
        ({"sum": "9" * 5000}, "not a sketch"),
        ({"buckets": [[5, -1]]}, "not a sketch"),
        ({"buckets": [[9, 140], [5, 8]]}, "buckets must be in order"),
        ({"buckets": [], "count": 0}, "min, max, sum and sum_of_squares of nothing must be 0"),
        ({"more": 1}, "not a sketch"),
    ],
)
def test_a_contradiction_is_named_though_the_checksums_were_made_again(
    saved: Path, fields: dict[str, Any], message: str
) -> None:
    change(saved, **fields)
    with pytest.raises(ResultError, match=message):
        load_result(saved)


@pytest.mark.parametrize(
    "changed",
    [
        {"requests": "2"},
        {"files": []},
        {"files": {}},
        {"files": {"../x": {"bytes": 1, "sha256": ""}}},
        {"stats": {"end_ticks": "x"}},
        {"provenance": {"version": 1}},
    ],
)
def test_a_manifest_of_other_types_is_refused(saved: Path, changed: dict[str, Any]) -> None:
    write_manifest(saved, {**read_manifest(saved), **changed})
    with pytest.raises(ResultError, match=r"manifest\.json"):
        load_result(saved)
