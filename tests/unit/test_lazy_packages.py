"""Packages whose names are imported when first read: type checkers see the names that programs do."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import paceline
from paceline import _lazy

ROOT = Path(paceline.__file__).parent


def lazy_packages() -> list[str]:
    """Return the packages that attach names."""
    packages = [
        file.parent
        for file in ROOT.rglob("__init__.py")
        if "attach(" in file.read_text() and file.parent != ROOT
    ]
    return sorted(".".join(("paceline", *folder.relative_to(ROOT).parts)) for folder in packages)


def seen_by_checkers(package: str) -> set[str]:
    """Return the names that a package imports for type checkers only."""
    source = (ROOT.joinpath(*package.split(".")[1:]) / "__init__.py").read_text()
    guarded = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    imports = [
        line for node in guarded if "TYPE_CHECKING" in ast.unparse(node.test) for line in ast.walk(node)
    ]
    return {
        name.asname or name.name
        for line in imports
        if isinstance(line, ast.ImportFrom)
        for name in line.names
    }


@pytest.mark.parametrize("package", lazy_packages())
def test_type_checkers_see_the_names_of_a_lazy_package(package: str) -> None:
    module = import_module(package)
    assert isinstance(module, _lazy._Package)
    assert seen_by_checkers(package) == set(module.__dict__["_home_of"])
    assert set(module.__all__) == set(module.__dict__["_home_of"])
