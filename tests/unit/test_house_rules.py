"""The rules of CONTRIBUTING.md that a machine can check, checked on every file of the tree."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Policies and the systems they come from. vLLM is an engine we follow, and not one of them.
POLICY_NAMES = re.compile(
    r"\b(pascal|arrow|pars|sarathi|andes|llumnix|splitwise|distserve|mooncake|fastserve|layered_prefill)(?=\b|_)",
    re.IGNORECASE,
)

# Where a package index or a home folder would give away the machine a file was written on.
MACHINE = re.compile(
    "|".join(
        (
            r"(?<![\w.])/(home|Users)/\w+/",
            r"(?<![\w.])/roo[t]/",
            "file:" + "//",
            "extra-" + "index",
            r"--index-" + "url",
        )
    )
)


@pytest.fixture(scope="module")
def tree(root: Path) -> list[Path]:
    """Return every file of the tree that Git keeps or would keep."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("needs a Git checkout, to know which files belong to the tree")
    return [root / name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


def lines_with(pattern: re.Pattern[str], files: list[Path], *suffixes: str) -> Iterator[tuple[str, str]]:
    """Yield place and text of the lines that have a pattern, of files with one of the suffixes, or of all."""
    for file in files:
        if suffixes and file.suffix not in suffixes:
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if not pattern.search(text):
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if pattern.search(line):
                yield f"{file}:{number}", line.strip()


def in_rust(tree: list[Path], root: Path) -> list[Path]:
    return [file for file in tree if file.is_relative_to(root / "rust")]


def test_no_file_names_the_machine_it_was_written_on(tree: list[Path], root: Path) -> None:
    above = root if root.parent == Path(tempfile.gettempdir()) else root.parent
    here = re.escape(f"{above}/") if above != Path("/") else "(?!)"
    assert not list(lines_with(re.compile(rf"{MACHINE.pattern}|(?<![\w.]){here}"), tree))


def test_no_hash_map_of_the_engine_is_read_in_its_order(tree: list[Path], root: Path) -> None:
    """Clippy finds loops over hash maps; chains of iterators on a map of the same file are found here."""
    found = []
    for file in in_rust(tree, root):
        if file.suffix == ".rs" and "core/src" in file.as_posix():
            code = file.read_text(encoding="utf-8").partition("#[cfg(test)]")[0]
            maps = set(re.findall(r"(\w+): (?:Fx)?Hash(?:Map|Set)<", code))
            reads = re.findall(
                r"(\w+)\s*\.(?:iter|values|keys|drain|into_iter|into_values|into_keys)(?:_mut)?\(", code
            )
            found += [f"{file.name}: {name}" for name in reads if name in maps]
    assert found == []


def test_the_engine_names_no_policy(tree: list[Path], root: Path) -> None:
    named = lines_with(POLICY_NAMES, in_rust(tree, root), ".rs", ".toml")
    assert not [(place, line) for place, line in named if POLICY_NAMES.search(line.partition("//")[0])]


def test_doc_comments_in_rust_say_what_a_thing_is(tree: list[Path], root: Path) -> None:
    # "What …" names no thing, and "See the module" says nothing: a sentence of its own says more.
    vague = re.compile(r"^\s*//[/!] (What\b|See the module)", re.MULTILINE)
    assert not list(lines_with(vague, in_rust(tree, root), ".rs"))


def test_every_numbered_invariant_has_a_test(tree: list[Path], root: Path) -> None:
    stated = re.findall(
        r"^## (INV-\d+)\b", (root / "docs/invariants.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert stated
    assert len(stated) == len(set(stated))
    tests = [file for file in tree if file.is_relative_to(root / "tests") and file.suffix == ".py"]
    tested = {name for file in tests for name in re.findall(r"\bINV-\d+\b", file.read_text(encoding="utf-8"))}
    for file in tree:
        if file.is_relative_to(root / "rust") and file.suffix == ".rs":
            text = file.read_text(encoding="utf-8")
            inside = text if "tests" in file.parts else text.partition("#[cfg(test)]")[2]
            tested.update(re.findall(r"\bINV-\d+\b", inside))
    assert not set(stated) - tested
    assert not tested - set(stated), "a test names an invariant that docs/invariants.md does not state"
