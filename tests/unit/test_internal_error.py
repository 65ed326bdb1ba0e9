"""A bug in the native engine becomes an exception that says how to report it, and never a panic."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline import Affine, Cluster, InternalError, PacelineError, Trace, _core, _native, policies
from paceline.cli import main

CLUSTER = Cluster([paceline.Instance(cost=Affine(step_s=0.01), num_blocks=101)])
TRACE = Trace.from_columns(arrival=[0.0], prompt_tokens=[8], output_tokens=[2])


@pytest.fixture
def broken_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the engine panic in every replay."""

    def replay(*_: object) -> None:
        _core.fail("Invariant: two is one", detached=True)

    monkeypatch.setattr(_native._core, "replay", replay)


@pytest.mark.parametrize("detached", [False, True])
def test_a_panic_is_an_exception_with_its_message_and_place(detached: bool, capfd: Any) -> None:
    with pytest.raises(InternalError, match=r"this cannot be \(at \S*rust/py/src/guard\.rs:\d+\)") as raised:
        _core.fail("this cannot be", detached=detached)
    assert isinstance(raised.value, PacelineError)
    assert capfd.readouterr() == ("", "")


def test_a_panic_leaves_the_engine_as_usable_as_before() -> None:
    for _ in range(3):
        with pytest.raises(InternalError):
            _core.fail("this cannot be")
        assert paceline.replay(TRACE, CLUSTER).requests["finish"].to_list() == [0.02]


def test_a_panic_below_a_router_written_in_python_is_one_exception() -> None:
    def router(request: Any, instances: Any) -> int:
        _core.fail("inside of a router", detached=True)
        return 0

    with pytest.raises(InternalError, match="inside of a router"):
        paceline.replay(TRACE, CLUSTER, paceline.Policy(name="mine", on_arrival=router))


def test_panics_on_several_threads_keep_their_own_messages() -> None:
    said: dict[int, str] = {}

    def work(number: int) -> None:
        for _ in range(50):
            with pytest.raises(InternalError) as raised:
                _core.fail(f"on thread {number}", detached=True)
            said[number] = raised.value.problem
            assert raised.value.problem.startswith(f"on thread {number} ")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 4


@pytest.mark.usefixtures("broken_engine")
def test_the_message_says_version_place_to_report_and_how_to_get_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(InternalError) as raised:
        paceline.replay(TRACE, CLUSTER, policies.vllm(max_num_seqs=7), until=9.0)
    bug = raised.value
    assert (
        f"a bug in Paceline {paceline.__version__}, not in what it was given: Invariant: two is one"
        in str(bug)
    )
    assert "Please report it at https://github.com/paceline/paceline/issues" in str(bug)
    assert "the configuration, which save(directory) of this exception writes" in str(bug)

    saved = bug.save(tmp_path / "bug")
    assert str(bug).endswith(f"the configuration, which is saved in {saved}")
    wire = json.loads((saved / "engine.json").read_text())
    assert wire["instances"][0]["scheduler"]["max_num_seqs"] == 7
    assert wire["until"] == 9 * 10**12
    policy = (saved / "policy.toml").read_text()
    assert paceline.Policy.from_toml(policy) == policies.vllm(max_num_seqs=7)
    assert tomllib.loads((saved / "cluster.toml").read_text())
    replayed = json.loads((saved / "replay.json").read_text())
    assert replayed["trace_sha256"] == TRACE.sha256
    assert replayed["settings"] == {"until": 9.0, "leap": True}
    assert "Invariant: two is one" in (saved / "problem.txt").read_text()
    assert bug.save(tmp_path / "bug") == tmp_path / "bug-2"


@pytest.mark.usefixtures("broken_engine")
def test_it_crosses_processes_whole() -> None:
    with pytest.raises(InternalError) as raised:
        paceline.replay(TRACE, CLUSTER)
    other = pickle.loads(pickle.dumps(raised.value))
    assert (str(other), other.configuration) == (str(raised.value), raised.value.configuration)


@pytest.mark.usefixtures("broken_engine")
@pytest.mark.parametrize("out", [True, False])
def test_the_command_line_saves_the_configuration_beside_the_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], out: bool
) -> None:
    path = tmp_path / "trace.csv"
    TRACE.write(path)
    words = ["replay", str(path), "--model", "llama-3.1-8b", "--gpu", "h100-sxm"]
    assert main([*words, *(["--out", str(tmp_path / "result")] if out else [])]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("paceline: a bug in Paceline ")
    if out:
        assert f"is saved in {tmp_path / 'result.bug'}" in said
        assert (tmp_path / "result.bug" / "engine.json").exists()
        assert not (tmp_path / "result").exists()
    else:
        assert "the same command with --out DIR saves it" in said


def test_a_panic_prints_nothing_of_its_own() -> None:
    code = (
        "from paceline import _core\ntry:\n    _core.fail('no')\nexcept Exception as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "a bug in Paceline" in done.stdout
