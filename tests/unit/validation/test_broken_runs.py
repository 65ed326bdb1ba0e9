"""A measured run that is broken is refused by file, field or row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fuzz.targets import ENGINE, REQUESTS
from paceline.errors import ConfigError
from paceline.validation.folder import read_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "engine.json").write_text(json.dumps(ENGINE))
    pl.DataFrame(REQUESTS).write_parquet(tmp_path / "requests.parquet")
    return tmp_path


def test_a_whole_run_is_read(run: Path) -> None:
    assert read_run(run).requests["arrival_s"].to_list() == [0.0, 0.5]


@pytest.mark.parametrize(
    "content",
    [b"[]", b"5", b"null", b"\xff\xfe", b'{"model": "\xff"}', b"{", b"", b"[" * 100_000, b'{"a":' * 100_000],
)
def test_settings_that_are_no_object_are_refused(run: Path, content: bytes) -> None:
    (run / "engine.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"engine\.json must be a JSON object in UTF-8"):
        read_run(run)


@pytest.mark.parametrize(
    ("table", "name", "value", "message"),
    [
        ("engine_kwargs", "max_num_seqs", "8", "max_num_seqs of .* must be a whole number .*, was '8'"),
        ("engine_kwargs", "max_num_seqs", 2**31, "from 1 to 2,147,483,647, was 2147483648"),
        ("engine_kwargs", "enable_expert_parallel", "no", "must be true or false, was 'no'"),
        ("engine_kwargs", "kv_cache_dtype", [1], r"kv_cache_dtype of .* must be a name, was \[1\]"),
        ("kv_cache", "block_size", 4_000_000_000, "from 1 to 65,536, was 4000000000"),
        ("kv_cache", "gpu_memory_utilization", "0.9", "must be a number above 0 and at most 1, was '0.9'"),
        ("link", "bandwidth_gb_per_s", "50", "must be a finite number above 0, was '50'"),
        ("link", "latency_us", None, "must be a finite number, 0 or more, was None"),
    ],
)
def test_a_setting_of_another_type_is_refused(
    run: Path, table: str, name: str, value: Any, message: str
) -> None:
    settings = json.loads(json.dumps(ENGINE))
    settings[table][name] = value
    (run / "engine.json").write_text(json.dumps(settings))
    with pytest.raises(ConfigError, match=message):
        read_run(run)


@pytest.mark.parametrize("name", ["engine_kwargs", "kv_cache", "link"])
def test_a_part_that_is_no_object_is_refused(run: Path, name: str) -> None:
    (run / "engine.json").write_text(json.dumps({**ENGINE, name: ["x"]}))
    with pytest.raises(ConfigError, match=rf"{name} of .* must "):
        read_run(run)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("arrival_s", ["a", "b"], r"row \(counting from 0\) 0: arrival_s must be a finite number, was 'a'"),
        ("prompt_tokens", [40, None], r"row \(counting from 0\) 1: prompt_tokens is missing"),
        ("prompt_tokens", [1.5, 2.0], r"0: prompt_tokens must be a whole number .*, was 1\.5"),
        ("output_tokens", [[1], [2]], r"0: output_tokens must be a whole number"),
        ("first_token_s", [0.1, float("nan")], r"1: first_token_s must be a finite number, was nan"),
    ],
)
def test_requests_of_another_type_are_refused(
    run: Path, column: str, values: list[Any], message: str
) -> None:
    pl.DataFrame({**REQUESTS, column: values}).write_parquet(run / "requests.parquet")
    with pytest.raises(ConfigError, match=message):
        read_run(run)


@pytest.mark.parametrize("cut", [0, 3, 50, -1])
def test_requests_that_are_cut_are_refused(run: Path, cut: int) -> None:
    path = run / "requests.parquet"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ConfigError, match=r"requests\.parquet: is no readable Parquet file"):
        read_run(run)
