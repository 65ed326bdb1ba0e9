"""`paceline replay --record` and `--perfetto`: what is recorded, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import paceline as package
from cli.running import ON_ONE_H100, Run
from paceline.cli import recording


def test_a_window_is_recorded_and_written_for_perfetto(
    paceline: Run, small_trace: Path, tmp_path: Path
) -> None:
    words = ("--record", "2,5", "--perfetto", "p.perfetto-trace", "--out", "saved")
    done = paceline("replay", small_trace, *ON_ONE_H100, *words)
    assert done.returncode == 0, done.stderr
    assert "saved to saved, recorded in p.perfetto-trace" in done.stderr
    result = package.load_result("saved")
    assert result.provenance.settings["record"] == "2.0 to 5.0"
    starts = result.steps["start_s"]
    assert len(starts) > 0
    assert starts.is_between(2.0, 5.0, closed="left").all()
    again = result.perfetto(tmp_path / "again").path
    assert again.read_bytes() == (tmp_path / "p.perfetto-trace").read_bytes()
    repeated = paceline("replay", "saved/run.toml", "--perfetto", "q.perfetto-trace")
    assert repeated.returncode == 0, repeated.stderr
    assert (tmp_path / "q.perfetto-trace").read_bytes() == again.read_bytes()


def test_without_a_window_the_first_minute_is_recorded(paceline: Run, small_trace: Path) -> None:
    done = paceline(
        "replay", small_trace, *ON_ONE_H100, "--perfetto", "p", "--out", "saved", "--scale", "0.1"
    )
    assert done.returncode == 0, done.stderr
    result = package.load_result("saved")
    assert result.totals().simulated_s > 90
    assert 55 < float(result.steps["start_s"].max()) < 60  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--record", "2,5"], "--record needs --out DIR or --perfetto FILE"),
        (["--record", "5,2", "--out", "a"], "--record must be FROM,TO in seconds, FROM before TO, as 10,20"),
        (["--record", "5", "--out", "a"], "was '5'"),
        (["--record", "nan,2", "--out", "a"], "was 'nan,2'"),
        (["--sample", "1s"], "--sample needs --out DIR, where it is saved"),
    ],
)
def test_what_cannot_be_recorded_is_refused_in_a_line(
    words: list[str], said: str, paceline: Run, small_trace: Path
) -> None:
    done = paceline("replay", small_trace, *ON_ONE_H100, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_extra_is_asked_for_before_the_replay(
    paceline: Run, small_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(package.ConfigError, match=r"pip install 'paceline\[perfetto\]'"):
        recording.perfetto_library()


def test_a_run_that_records_says_so_in_its_file(paceline: Run, small_trace: Path) -> None:
    done = paceline("replay", small_trace, *ON_ONE_H100, "--record", "2,5", "--out", "saved", "--quiet")
    assert done.returncode == 0, done.stderr
    refused = paceline("replay", "saved/run.toml", "--record", "1,2", "--out", "b")
    assert "write there what --record would say" in refused.stderr
