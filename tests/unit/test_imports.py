"""The modules of the package import one another without circles, late and type-only imports included."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from unit.syntax import statements


def modules(root: Path) -> dict[str, ast.Module]:
    """Return the syntax trees of the package's modules by name; that of the native module is its stub."""
    folder, trees = root / "python", {}
    for file in (*folder.glob("paceline/**/*.py"), folder / "paceline/_core.pyi"):
        parts = file.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(file.read_text(encoding="utf-8"))
    return trees


def imported(tree: ast.Module, known: Collection[str]) -> Iterator[str]:
    """Yield the modules of the package that a module imports anywhere in its text."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports of the package are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from [name for name in (inner, node.module) if name in known][:1]


def circle(trees: Mapping[str, ast.Module]) -> list[str]:
    """Return the modules of a circle in order; nothing if there is none."""
    graph = {name: set(imported(tree, trees)) - {name} for name, tree in trees.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_module_imports_itself_through_others(root: Path) -> None:
    trees = modules(root)
    assert len(trees) > 200
    assert circle(trees) == []


@pytest.mark.parametrize(
    "late",
    [
        "def f():\n    from paceline.a import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from paceline.a import X",
        "import paceline.a",
        "from paceline import a",
    ],
    ids=["in a function", "for type checkers", "whole", "from the package"],
)
def test_a_circle_is_found_however_it_is_closed(late: str) -> None:
    trees = {"paceline": "", "paceline.a": "from paceline.b import y", "paceline.b": late}
    assert set(circle({name: ast.parse(text) for name, text in trees.items()})) == {
        "paceline.a",
        "paceline.b",
    }
