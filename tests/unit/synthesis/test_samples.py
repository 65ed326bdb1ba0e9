"""The traces in traces/ are what their recipes make."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from paceline.trace import read_trace


@pytest.fixture(scope="module")
def make(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("traces_make", root / "traces" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_recipes_make_every_file_byte_for_byte(make: ModuleType, root: Path, tmp_path: Path) -> None:
    make.make(tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = {
        path.name: path.read_bytes()
        for path in (root / "traces").iterdir()
        if path.suffix in (".csv", ".jsonl")
    }
    assert made == kept


def test_every_file_reads_back_as_its_recipe(make: ModuleType, root: Path) -> None:
    recipes = make.recipes()
    assert recipes
    for name, trace in recipes.items():
        assert read_trace(root / "traces" / name) == trace


def test_the_readme_lists_every_file(make: ModuleType, root: Path) -> None:
    readme = (root / "traces" / "README.md").read_text(encoding="utf-8")
    assert all(f"[{name}]({name})" in readme for name in make.recipes())
