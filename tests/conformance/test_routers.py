"""The engine against the decision logs of real routers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.conformance import check_router, read_router_log
from paceline.conformance.__main__ import main
from paceline.conformance.routers.kinds import KINDS, kind_of
from paceline.errors import TraceError

LOGS = Path(__file__).parent / "logs" / "routers"
FILES = sorted(LOGS.glob("*/*.json.gz"))
ASKED = (
    *("distserve_schedulers", "simdistserve_dispatch", "splitwise_mixed_pool", "splitwise_jsq"),
    *("splitwise_token_jsq", "splitwise_kv_jsq", "splitwise_kv_token_jsq", "splitwise_overlap_kv_jsq"),
)
"""Logs whose rules are asked about a request at a time, in replays that have no run of steps to leap."""
LIGHT = LOGS / "sglang_round_robin" / "rr_01_light.json.gz"


def test_every_kind_has_a_log() -> None:
    modules = {read_router_log(file).kind.__name__.rpartition(".")[2] for file in FILES}
    assert modules == set(KINDS.values())


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name.split('.')[0]}")
def test_the_engine_decides_what_the_real_router_decided(file: Path) -> None:
    log = read_router_log(file)
    for leap in (True,) if file.parent.name in ASKED else (True, False):
        assert check_router(log, leap=leap) is None, "leaping" if leap else "stepping"


def changed(tmp_path: Path, change: Callable[[Any], object]) -> Path:
    content = json.loads(gzip.decompress(LIGHT.read_bytes()))
    change(content)
    copy = tmp_path / "changed.json"
    copy.write_text(json.dumps(content), encoding="utf-8")
    return copy


def test_the_command_prints_a_line_for_each_way_and_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(LIGHT), "--follow", str(LIGHT)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0] == f"{LIGHT}: leaping: all 300 requests equal"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda log: log["decisions"][7].update(instance=2), "request 7: instance is 3 here, 2 in the log"),
        (lambda log: log["finish_ns"].__setitem__(5, 1), r"request 5: finish (ns) is "),
        (lambda log: log["decisions"].pop(), "request 299: instance is 3 here, None in the log"),
    ],
)
def test_the_command_finds_one_change(
    tmp_path: Path, change: Callable[[Any], object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(changed(tmp_path, change)), str(LIGHT)]) == 1
    first, second, *others = capsys.readouterr().out.splitlines()
    assert said in first
    assert said in second
    assert len(others) == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda log: log.update(router="nginx"), "router must be one of .*, was 'nginx'"),
        (lambda log: log.pop("step_ns"), "missing required field `step_ns`"),
        (lambda log: log.update(step_ns=0), "expected `int` >= 1"),
        (lambda log: log.update(requests=[]), "requests must be at least one"),
        (lambda log: log["requests"].reverse(), "request 1: arrival_ns must be at least"),
        (lambda log: log["requests"][0].update(output_tokens=2**29), r"tokens of all .*\(limit values\)"),
    ],
)
def test_a_broken_log_is_refused(tmp_path: Path, change: Callable[[Any], object], said: str) -> None:
    with pytest.raises(TraceError, match=said):
        read_router_log(changed(tmp_path, change))


def test_a_router_that_is_not_known_has_no_kind() -> None:
    assert kind_of("nginx") is None
