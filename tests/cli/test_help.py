"""Help texts: each command ends with examples that the command line takes, and names what arguments take."""

from __future__ import annotations

import shlex
from typing import get_args

import pytest

from cli.running import Run
from paceline.cli.app import _COMMANDS, app
from paceline.cli.examples import EXAMPLES, FORMATS, PRESETS
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
