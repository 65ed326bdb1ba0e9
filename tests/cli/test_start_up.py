"""A command imports the modules that it uses, and no others; names of lazy packages are what they were."""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import ON_ONE_H100
from paceline.cli import main
from paceline.policies.by_name import names

LAZY = ("kernels", "policies", "policy", "report", "result", "runs", "synthesis")
"""The packages whose names are imported when they are first read."""

UNUSED = (
    "altair",
    "jinja2",
    "paceline.calibration",
    "paceline.comparing",
    "paceline.kernels.table",
    "paceline.planning",
    "paceline.profiling",
    "paceline.rank",
    "paceline.report.writing",
    "paceline.result.perfetto",
    "paceline.streaming",
    "paceline.study",
    "paceline.sweeping",
    "paceline.synthesis",
    "paceline.testing",
    "paceline.validation",
    "statistics",
)
"""What a plain replay does without."""


def imported_by(*words: object) -> set[str]:
    """Return the modules that a process has imported after a command."""
    program = (
        "import json, sys\n"
        "from paceline.cli import main\n"
        "status = main(sys.argv[1:])\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
        "sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_a_plain_replay_imports_one_policy_one_format_and_nothing_that_it_does_without(
    small_trace: Path,
) -> None:
    modules = imported_by("replay", small_trace, *ON_ONE_H100, "--quiet")
    assert modules.isdisjoint(UNUSED)
    made = {f"paceline.policies.{name}" for name in names()}
    assert modules & made == {"paceline.policies.vllm"}
    formats = {name for name in modules if name.startswith("paceline.trace.formats.")}
    assert formats == {"paceline.trace.formats.own"}


def test_another_policy_brings_its_own_module(small_trace: Path) -> None:
    modules = imported_by("replay", small_trace, *ON_ONE_H100, "--quiet", "--policy", "sarathi")
    assert "paceline.policies.sarathi" in modules
    assert "paceline.policies.pascal" not in modules


def test_help_imports_no_data_frames_and_no_engine() -> None:
    assert imported_by("replay", "--help").isdisjoint({"polars", "numpy", "paceline._core"})


def test_a_command_looks_for_garbage_as_before_where_its_process_goes_on(small_trace: Path) -> None:
    before = gc.get_threshold()
    assert main(["gpus", "--json"]) == 0
    assert gc.get_threshold() == before


def for_type_checkers(package: str) -> dict[str, str]:
    """Return the home of each name that a package imports for type checkers."""
    file = inspect.getsourcefile(importlib.import_module(package))
    assert file is not None
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: str(node.module)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("name", LAZY)
def test_a_lazy_package_has_the_names_that_type_checkers_see(name: str) -> None:
    package = importlib.import_module(f"paceline.{name}")
    homes = for_type_checkers(package.__name__)
    assert homes
    assert set(homes) <= set(package.__all__) <= set(dir(package))
    for each, home in homes.items():
        assert getattr(package, each) is getattr(importlib.import_module(home), each)
    with pytest.raises(AttributeError, match=rf"module 'paceline\.{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def test_a_policy_is_a_function_also_after_its_module_was_imported_by_name() -> None:
    program = (
        "import paceline.policies.vllm, paceline.policies.sarathi\n"
        "from paceline import policies\n"
        "from paceline.policies import pascal\n"
        "assert policies.vllm().name == 'vllm' and pascal().name == 'pascal', policies.vllm\n"
        "assert policies.sarathi().name == 'sarathi'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
