"""Completion in shells: the scripts are valid, and what a shell offers is what the commands take."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import Run
from paceline import catalog, policies
from paceline.cli.policy_choice import known

SHELLS = ("bash", "zsh", "fish")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell_is_valid(shell: str, paceline: Run, tmp_path: Path) -> None:
    done = paceline("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("capacity", "--max-num-seqs", "fewest-tokens"):
        assert word in done.stdout
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(done.stdout)
    option = "--no-execute" if shell == "fish" else "-n"
    checked = subprocess.run([program, option, str(script)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def completed(words: list[str], folder: Path, script: str) -> list[str]:
    """Return what bash offers for the last word of a command line."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    program = folder / "bin" / "paceline"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m paceline "$@"\n')
    program.chmod(0o755)
    (folder / "script").write_text(script)
    line = " ".join(f"'{word}'" for word in words)
    asked = f"""
        source "{folder}/script"
        COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}
        COMP_LINE="{" ".join(words)}"; COMP_POINT=${{#COMP_LINE}}
        $(complete -p paceline | sed "s/.*-F \\([^ ]*\\).*/\\1/") paceline "{words[-1]}" "{words[-2]}"
        printf "%s\\n" "${{COMPREPLY[@]}}"
    """
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "-c", asked],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PATH": path},
    )
    return sorted(done.stdout.split())


def test_bash_offers_commands_options_choices_presets_and_files(paceline: Run, tmp_path: Path) -> None:
    script = paceline("completion", "bash").stdout
    (tmp_path / "trace-one.csv").touch()

    def offered(*words: str) -> list[str]:
        return completed(["paceline", *words], tmp_path, script)

    assert offered("ca") == ["calibrate", "capacity"]
    assert offered("replay", "--prediction-b") == ["--prediction-batch", "--prediction-batch-ms"]
    assert offered("replay", "--routing", "fewest") == ["fewest-requests", "fewest-tokens"]
    assert offered("capacity", "trace-one.csv", "--gpu", "h") == sorted(
        name for name in catalog.names("gpu") if name.startswith("h")
    )
    assert offered("replay", "trace-o") == ["trace-one.csv"]


def test_names_are_those_of_the_catalogs(paceline: Run) -> None:
    for option, names in (
        ("--model", catalog.names("model")),
        ("--gpu", catalog.names("gpu")),
        ("--policy", known()),
    ):
        found = paceline("__complete", "replay", "trace.csv", option, "").stdout.split()
        assert set(names) <= set(found), option
    assert "sarathi" in paceline("__complete", "compare", "trace.csv", "--against", "").stdout.split()
    assert callable(policies.sarathi)


def test_a_shell_that_is_not_known_is_named(paceline: Run) -> None:
    done = paceline("completion", "tcsh")
    assert (done.returncode, done.stdout) == (2, "")
    assert 'Choose from: "bash", "zsh", "fish".' in done.stderr
    assert len(done.stderr.splitlines()) == 1
