"""Help texts: each command ends with examples that the command line takes, and names what arguments take."""

from __future__ import annotations

import shlex
from typing import get_args

import pytest

from cli.running import Run
from paceline.cli.app import _COMMANDS, app
from paceline.cli.examples import EXAMPLES, FORMATS, PRESETS, TRACE
from paceline.synthesis import presets
from paceline.trace.detection import Format


def test_each_command_has_examples() -> None:
    assert EXAMPLES.keys() == _COMMANDS.keys()


@pytest.mark.parametrize("command", _COMMANDS)
def test_the_help_of_a_command_has_examples_that_parse(command: str, paceline: Run) -> None:
    done = paceline(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    shown = " ".join(done.stdout.split())
    for example in EXAMPLES[command]:
        assert f"paceline {example}" in shown
        words = shlex.split(example.partition(" > ")[0])
        assert words[0] == command
        app.parse_args(words, exit_on_error=False, print_error=False)


def test_formats_and_presets_are_those_that_are_read_and_drawn() -> None:
    assert set(FORMATS) == set(get_args(Format))
    assert set(PRESETS) == set(presets())


RUN = ("replay", "capacity", "plan", "compare", "trace", "models", "gpus", "policies", "presets")
"""Commands whose examples need nothing but the trace that the help tells how to make, and one another."""

WITHOUT_EXTRAS = ("--perfetto", "--report", "convert")
"""Examples with one of these words need a further package or file."""


def test_examples_run_as_they_are_pasted(paceline: Run) -> None:
    assert paceline(*shlex.split(TRACE)).returncode == 0
    for command in RUN:
        for example in EXAMPLES[command]:
            if not any(word in example for word in WITHOUT_EXTRAS):
                done = paceline(*shlex.split(example))
                assert done.returncode == 0, (example, done.stderr)
                assert done.stdout
