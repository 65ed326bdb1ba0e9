"""`paceline profiles`, and replays with an imported profile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.running import Run
from unit.kernels.making import make_database, make_folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PACELINE_PROFILES", str(tmp_path / "home"))
    return tmp_path / "home"


def test_profiles_are_imported_listed_and_shown(paceline: Run, tmp_path: Path, home: Path) -> None:
    make_folder(tmp_path / "one")
    make_database(tmp_path / "many")
    assert json.loads(paceline("profiles", "import", "one", "--json").stdout)["names"] == ["one"]
    assert paceline("profiles", "import", "many").stdout.splitlines() == [
        "aisimulate/toy/vllm/0.24.0",
        f"in {home}",
    ]
    listed = json.loads(paceline("profiles", "list", "--json").stdout)["profiles"]
    shipped = "paceline profile, shipped"
    assert {name: entry["what"] for name, entry in listed.items() if entry.get("source") != shipped} == {
        "aisimulate/toy/vllm/0.24.0": "operators",
        "one": "model",
    }
    assert listed["h100-sxm-qwen3-14b"]["source"] == shipped
    shown = json.loads(paceline("profiles", "show", "one", "--json").stdout)
    assert shown["facts"]["gpu"] == "X"
    assert shown["tables"]["qkv_proj"] == {"points": 2, "to": 3}


def test_a_replay_takes_step_times_from_a_profile_and_reports_extrapolation(
    paceline: Run, small_trace: Path, tmp_path: Path
) -> None:
    make_database(tmp_path / "many")
    paceline("profiles", "import", "many")
    words = ("replay", small_trace, "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--quiet")
    done = paceline(*words, "--profile", "aisimulate/toy/vllm")
    assert done.returncode == 0
    # Chunks past 512 tokens, more than eight decodes and contexts past 1,024 tokens were not measured.
    found = [line for line in done.stdout.splitlines() if line.startswith("extrapolated")]
    assert [line.split()[-1] for line in found] == ["prefill_chunk", "n_decode", "kv_decode"]


def test_mistakes_are_one_line(paceline: Run, small_trace: Path, tmp_path: Path) -> None:
    done = paceline("profiles", "import", "nowhere")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    words = ("replay", small_trace, "--model", "llama-3.1-8b", "--gpu", "h100-sxm")
    assert "0 have been imported" in paceline(*words, "--profile", "none").stderr
    make_folder(tmp_path / "one")
    done = paceline(*words, "--profile", "one", "--pp", "2")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "link of a Table must be given where there is more than one stage" in done.stderr


def test_a_profile_that_is_not_there_is_told_which_ship(
    paceline: Run, small_trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    done = paceline("replay", small_trace, "--model", "qwen3-14b", "--gpu", "h100-sxm", "--profile", "zzz")
    assert (done.returncode, "; shipped: h100-sxm-llama-3.1-8b, " in done.stderr) == (2, True)
