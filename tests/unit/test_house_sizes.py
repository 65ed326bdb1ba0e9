"""Files, structs and functions are small; what is not stands with its reason in `house_exceptions.toml`."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

MOST_LINES, MOST_FIELDS, MOST_IN_FUNCTION = 500, 14, 60

_STRUCT = re.compile(r"^(?:pub(?:\([^)]*\))? )?struct (\w+)[^;{(]*\{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^    (?:pub(?:\([^)]*\))? )?\w+: ", re.MULTILINE)
_FN = re.compile(r"^( *)(?:pub(?:\([^)]*\))? )?(?:const |unsafe )*fn (\w+)")


@pytest.fixture(scope="module")
def sources(root: Path) -> dict[str, str]:
    """Return the text of each source file by its path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.rs", "*.py"], cwd=root, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("needs a Git checkout, to know which files belong to the tree")
    names = [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]
    return {name: (root / name).read_text(encoding="utf-8") for name in names}


def exceptions(kind: str) -> dict[str, str]:
    text = (Path(__file__).parent / "house_exceptions.toml").read_text(encoding="utf-8")
    found: dict[str, str] = tomllib.loads(text)[kind]
    return found


def compare(found: dict[str, int], kind: str) -> None:
    listed = exceptions(kind)
    assert {name: size for name, size in found.items() if name not in listed} == {}, (
        "too long, and not listed"
    )
    assert [name for name in listed if name not in found] == [], "listed, and no longer too long"
    assert all(len(reason) > 15 for reason in listed.values())


def rust_functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield the functions of a file with their lines, those of its tests left out."""
    lines = text.split("#[cfg(test)]\nmod tests")[0].splitlines()
    for start, line in enumerate(lines):
        found = _FN.match(line)
        if found is None or line.endswith(";"):
            continue
        end = next((at for at in range(start, len(lines)) if lines[at] == found[1] + "}"), start)
        yield found[2], end - start + 1


def python_functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield the functions of a file with their lines, without their docstrings."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[0]
            said = ast.get_docstring(node) is not None
            docstring = (first.end_lineno or 0) - first.lineno + 1 if said else 0
            yield node.name, (node.end_lineno or 0) - node.lineno + 1 - docstring


def test_files_are_short(sources: dict[str, str]) -> None:
    lengths = {name: len(text.splitlines()) for name, text in sources.items()}
    compare({name: length for name, length in lengths.items() if length > MOST_LINES}, "files")


def test_structs_have_few_fields(sources: dict[str, str]) -> None:
    fields = {
        f"{name} {found[1]}": len(_FIELD.findall(found[2]))
        for name, text in sources.items()
        if name.endswith(".rs")
        for found in _STRUCT.finditer(text)
    }
    assert len(fields) > 200
    compare({name: count for name, count in fields.items() if count > MOST_FIELDS}, "structs")


def test_functions_are_short(sources: dict[str, str]) -> None:
    lengths: dict[str, int] = {}
    for name, text in sources.items():
        tests = "tests" in name.split("/") or name.endswith(("/tests.rs", "_tests.rs"))
        if name.endswith(".rs") and not tests:
            lengths |= {f"{name} {function}": length for function, length in rust_functions(text)}
        elif name.startswith("python/"):
            lengths |= {f"{name} {function}": length for function, length in python_functions(text)}
    assert len(lengths) > 3_000
    compare({name: length for name, length in lengths.items() if length > MOST_IN_FUNCTION}, "functions")
