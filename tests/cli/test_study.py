"""`paceline study` and `paceline calibrate`, as a user runs them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import quick_study
from cli.running import Run
from paceline import Cluster, Instance, replay, synthesize, write_bench
from paceline.calibration import Fit
from paceline.hosts import EngineHost
from paceline.policies import vllm
from paceline.study import Study, Work, studies


def test_studies_are_listed(paceline: Run) -> None:
    assert json.loads(paceline("study", "--json").stdout) == studies()
    assert all(name in paceline("study").stdout for name in studies())


def test_a_study_is_printed_and_written(
    paceline: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study itself is that of `tests/unit/study/test_layered_prefill.py`, which is replayed once."""
    pytest.importorskip("matplotlib")
    asked: list[tuple[str, bool, Path | None]] = []

    def run_study(name: str, work: Work) -> Study:
        asked.append((name, work.quick, work.data))
        work.report("replays", 1, 1)
        return quick_study.layered_prefill()[0]

    monkeypatch.setattr("paceline.study.run_study", run_study)
    done = paceline("study", "layered-prefill", "--quick", "--out", "out")
    assert done.returncode == 0
    assert "Table 6" in done.stdout
    assert "its numbers are rough" in done.stdout
    assert done.stderr.startswith("wrote ")
    assert json.loads((tmp_path / "out/study.json").read_text())["study"] == "layered-prefill"
    assert (tmp_path / "out/figure-3.png").is_file()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    assert asked == [("layered-prefill", True, None)]
    refused = paceline("study", "layered-prefill", "--quick", "--out", "mine")
    assert refused.returncode == 2
    assert "must be empty or hold a study" in refused.stderr


def test_an_unknown_study_is_refused(paceline: Run) -> None:
    done = paceline("study", "layered")
    assert (done.returncode, done.stdout) == (2, "")
    assert "close to it: layered-prefill" in done.stderr


def test_a_number_of_workers_below_one_is_refused(paceline: Run) -> None:
    done = paceline("study", "pascal", "--quick", "--workers", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "workers must be 1 or more, was 0" in done.stderr


def test_steps_in_a_csv_file_are_fitted(paceline: Run, tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    (tmp_path / "steps.csv").write_text(
        "name,prefill,decodes,context,seconds,source\nprompt,4096,0,0,0.15,mine\ndecode,0,1,64,0.009,mine\n"
    )
    words = ("calibrate", "steps.csv", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--fit", "matmul")
    done = paceline(*words, "--fit", "layer_s", "--out", "fit.toml", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [of["fitted"] for of in document["residuals"]] == pytest.approx([0.15, 0.009], rel=1e-3)
    fit = Fit.from_toml((tmp_path / "fit.toml").read_text())
    assert fit.fitted == document["fitted"]
    assert "layer_s" in paceline(*words, "--fit", "layer_s").stdout


def test_other_starts_are_tried_on_request(paceline: Run, tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    (tmp_path / "steps.csv").write_text(
        "name,prefill,decodes,context,seconds,source\ndecode,0,1,64,0.009,mine\n"
    )
    words = ("calibrate", "steps.csv", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--fit", "layer_s")
    done = paceline(*words, "--fit", "step_s", "--starts", "3", "--out", "fit.toml", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["starts"] == 3
    assert all(of["cost"] <= document["cost"] + 0.5 for of in document["equals"])
    fit = Fit.from_toml((tmp_path / "fit.toml").read_text())
    assert [of.fitted for of in fit.equals] == [of["fitted"] for of in document["equals"]] != []


def test_a_file_without_a_model_says_what_to_give(paceline: Run, tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text("name,prefill,seconds,source\nprompt,4096,0.15,mine\n")
    done = paceline("calibrate", "steps.csv")
    assert done.returncode == 2
    assert "model of steps.csv must be a name of the catalog" in done.stderr


def test_a_host_is_fitted_to_runs_and_kept(paceline: Run, tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    served = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")], frontend_s=0.015)
    trace = synthesize("azure-conv", requests=60, rate=100.0, seed=0)
    write_bench(replay(trace, served, vllm(async_scheduling=True)), tmp_path / "run.json")
    words = ("calibrate", "--host", "run.json", "--gpu", "h100-sxm")
    done = paceline(*words, "--server-version", "vllm-0.25.1", "--out", "mine.toml", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["fitted"]["frontend_s"] == pytest.approx(0.015, rel=0.02)
    host = EngineHost.load(str(tmp_path / "mine.toml"))
    assert (host.frontend_s, host.first) == (document["fitted"]["frontend_s"], "0.25.1")
    table = paceline(*words)
    assert "frontend_s" in table.stdout
    assert "without" in table.stdout


def test_a_calibration_of_nothing_says_what_to_give(paceline: Run) -> None:
    done = paceline("calibrate")
    assert done.returncode == 2
    assert "must have a file of observations, or --host RUN.json" in done.stderr
    done = paceline("calibrate", "--host", "run.json")
    assert done.returncode == 2
    assert "gpu must be a name of the catalog" in done.stderr


def test_a_name_that_no_study_has_is_refused_before_an_extra_is_missed(
    paceline: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = paceline("study", "pascl", "--out", "p")
    assert (done.returncode, done.stderr) == (
        2,
        "paceline: there is no study 'pascl'; close to it: pascal, pars\n",
    )
    done = paceline("study", "pascal", "--out", "p")
    assert "pip install 'paceline[study]'" in done.stderr
