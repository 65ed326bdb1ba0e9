"""The commands that list catalogs, summarize a trace and synthesize one."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cli.running import Run, command
from paceline import policies, read_trace, synthesize
from paceline.model import model_names
from paceline.policies.by_name import names
from paceline.synthesis import Diurnal, OnOff, Ramp, Steps, preset


@pytest.mark.parametrize("name", ["models", "gpus", "policies", "presets"])
def test_lists_show_the_same_names_to_people_and_machines(name: str, paceline: Run) -> None:
    table, document = paceline(name), paceline(name, "--json")
    assert (table.returncode, document.returncode) == (0, 0)
    assert (table.stderr, document.stderr) == ("", "")
    names = list(json.loads(document.stdout))
    assert names
    first_words = [line.split()[0] for line in table.stdout.splitlines() if line.strip()]
    assert [word for word in first_words if word in names] == names


def test_the_list_of_models_is_complete(paceline: Run) -> None:
    document = json.loads(paceline("models", "--json").stdout)
    assert set(document) == set(model_names())
    # The model card says 8.03 billion parameters; 2 × 32 layers × 8 KV heads × 128 × 2 bytes a token.
    assert document["llama-3.1-8b"]["parameters"] == pytest.approx(8.03e9, rel=1e-3)
    assert document["llama-3.1-8b"]["kv_bytes_per_token"] == 2 * 32 * 8 * 128 * 2


def test_policies_show_their_parameters(paceline: Run) -> None:
    document = json.loads(paceline("policies", "--json").stdout)
    assert {name.replace("-", "_") for name in document} == set(names())
    parameters = document["vllm"]["parameters"]
    assert list(parameters) == list(inspect.signature(policies.vllm).parameters)
    assert (parameters["watermark"]["required"], parameters["watermark"]["default"]) == (False, 0.0)
    assert document["layered-prefill"]["parameters"]["layers"]["required"]


def test_every_parameter_of_a_policy_has_a_meaning(paceline: Run) -> None:
    document = json.loads(paceline("policies", "--json").stdout)
    assert len(document) == len(names())
    for name, policy in document.items():
        assert policy["summary"].endswith("."), name
        if name not in ("authors-chunked", "authors-orca"):
            unexplained = [p for p, about in policy["parameters"].items() if not about["meaning"]]
            assert not unexplained, name


def test_a_trace_is_summarized(paceline: Run, small_trace: Path) -> None:
    document = json.loads(paceline("trace", small_trace, "--json").stdout)
    assert (document["requests"], document["span_s"], document["rate_per_s"]) == (40, 9.75, 4.0)
    assert document["summary"]["prompt_tokens"]["mean"] == 100 + 25 * 39 / 2
    assert document["summary"]["gap_s"]["cv"] == 0.0
    assert document["sha256"] == read_trace(small_trace).sha256
    table = paceline("trace", small_trace).stdout
    assert "40 requests over 9.8 s, 4 a second" in table.splitlines()[0]
    assert "output tokens" in table


def test_the_same_seed_makes_the_same_file(paceline: Run, tmp_path: Path) -> None:
    words = ("synthesize", "azure-conv", "--requests", 50, "--rate", 5, "--seed", 3, "--out")
    done = paceline(*words, "a.csv")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("wrote 50 requests over ")
    assert paceline(*words, "b.csv", "--quiet").stderr == ""
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert read_trace(tmp_path / "a.csv") == synthesize("azure-conv", requests=50, rate=5.0, seed=3)


def test_a_preset_has_a_rate_of_its_own(paceline: Run, tmp_path: Path) -> None:
    assert paceline("synthesize", "azure-conv", "--requests", 50, "--out", "a.csv").returncode == 0
    assert read_trace(tmp_path / "a.csv") == synthesize("azure-conv", requests=50, seed=0)


def test_a_reader_may_stop_reading() -> None:
    writer = subprocess.Popen(command("models", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    assert writer.stderr.read() == b""
    assert writer.wait() != 0
    writer.stderr.close()


def test_the_package_runs_as_a_module_and_as_a_script() -> None:
    script = Path(sys.executable).parent / "paceline"
    if not script.is_file():
        pytest.skip("needs the console script, which an installed package has")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert (
        done.stdout == subprocess.run(command("--version"), capture_output=True, text=True, check=True).stdout
    )


def test_sessions_and_shapes_are_those_of_python(paceline: Run, tmp_path: Path) -> None:
    words = (
        "synthesize",
        "conversation-replay",
        "--sessions",
        7,
        "--rate",
        2,
        "--idle-cap",
        "1s",
        "--seed",
        4,
    )
    done = paceline(*words, "--out", "a.parquet")
    assert done.stderr.startswith("wrote 70 requests of 7 sessions over ")
    recipe = replace(preset("conversation-replay"), idle_cap_s=1.0)
    assert read_trace(tmp_path / "a.parquet") == synthesize(recipe, sessions=7, rate=2.0, seed=4)
    for words, shape in (
        (("--ramp", "2,20,60s"), Ramp(2, 20, over_s=60)),
        (("--ramp", "2,20,60,exponential"), Ramp(2, 20, over_s=60, shape="exponential")),
        (("--steps", "0s:2,500ms:10"), Steps(((0, 2), (0.5, 10)))),
        (("--on-off", "20,2,5s,30s"), OnOff(20, 2, high_s=5, low_s=30)),
        (("--diurnal", "5,0.8,600s"), Diurnal(5, swing=0.8, period_s=600)),
    ):
        assert paceline("synthesize", "sharegpt", "--requests", 50, *words, "--out", "b.csv").returncode == 0
        assert read_trace(tmp_path / "b.csv") == synthesize("sharegpt", requests=50, seed=0, arrivals=shape)


def test_a_preset_says_its_source(paceline: Run) -> None:
    assert "assumed" in paceline("presets", "tracelab-codex").stdout.lower()
    document = json.loads(paceline("presets", "--json").stdout)
    assert (document["agentperf"]["draws"], document["azure-conv"]["draws"]) == ("sessions", "requests")
