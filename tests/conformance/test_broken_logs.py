"""A broken decision log is refused with an error that names the defect; none ends in a traceback."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuzz.targets import short_logs
from paceline.conformance import read_log
from paceline.conformance.__main__ import main
from paceline.errors import TraceError

VLLM, V0, LAYERED = 0, 1, 2


def written(folder: Path, kind: int, change: Callable[[Any], object]) -> Path:
    log = copy.deepcopy(short_logs()[kind])
    change(log)
    path = folder / "log.json"
    path.write_text(json.dumps(log))
    return path


@pytest.mark.parametrize("kind", [VLLM, V0, LAYERED])
def test_the_logs_that_the_cases_change_are_read(tmp_path: Path, kind: int) -> None:
    assert len(read_log(written(tmp_path, kind, lambda log: None)).requests) == 6


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (VLLM, lambda log: log.pop("log"), "missing required field `log`"),
        (VLLM, lambda log: log["engine"].pop("policy"), "missing required field `policy`"),
        (VLLM, lambda log: log["engine"].update(policy="x"), "invalid enum value 'x'"),
        (VLLM, lambda log: log["engine"].update(num_blocks=10**9), "expected `int` <= 16777216"),
        (VLLM, lambda log: log["engine"].update(block_size=4 * 10**9), "expected `int` <= 65536"),
        (VLLM, lambda log: log["engine"].update(block_size="16"), "expected `int`, got `str`"),
        (VLLM, lambda log: log["cost"].update(step_ns=-1), "expected `int` >= 0"),
        (VLLM, lambda log: log["cost"].pop("step_ns"), "missing required field `step_ns`"),
        (V0, lambda log: log["cost"].pop("swap_block_ns"), "missing required field `swap_block_ns`"),
        (V0, lambda log: log["engine"].update(preemption=[]), "expected `str`, got `array`"),
        (LAYERED, lambda log: log["engine"].update(mode="x"), "invalid enum value 'x'"),
        (VLLM, lambda log: log["requests"][2].pop(), "request 2: expected `array` of length 5, got 4"),
        (VLLM, lambda log: log["requests"][2].__setitem__(1, 0), "request 2: expected `int` >= 1 .*, was "),
        (VLLM, lambda log: log["requests"][2].__setitem__(4, [-1]), "request 2: expected `int` >= 0"),
        (
            V0,
            lambda log: log["requests"].__setitem__(0, []),
            "request 0: expected `array` of length 3, got 0",
        ),
        (V0, lambda log: log["requests"].clear(), "requests must be at least one, were none"),
        (VLLM, lambda log: log["requests"][0].__setitem__(2, 2**29), r"tokens of all .*\(limit values\)"),
        (
            VLLM,
            lambda log: log["log"]["steps"][3].pop(),
            "step 3 must have 4 entries, as those of vllm, had 3",
        ),
        (LAYERED, lambda log: log["log"]["steps"].__setitem__(0, 5), "expected `array`, got `int`"),
        (V0, lambda log: log["log"].update(finish_ns=None), "expected `array`, got `null`"),
    ],
)
def test_a_field_that_is_missing_or_of_another_type_is_named(
    tmp_path: Path,
    kind: int,
    change: Callable[[Any], object],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = written(tmp_path, kind, change)
    with pytest.raises(TraceError, match=message):
        read_log(path)
    assert main([str(path)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"paceline: {path}: ")
    assert output.err.count("\n") == 1


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"\xff", b"[" * 100_000, b"\x1f\x8b", b"{" + b"9" * 9_000, b"null"]
)
def test_a_file_that_is_no_log_is_one_line(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.json").write_bytes(content)
    assert main([str(tmp_path / "log.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
