"""No two files of the core, and no two packages in Python, use each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from unit.syntax import statements

Graph = Mapping[str, Set[str]]

_USE = re.compile(r"^use ([^;]+);", re.MULTILINE)
_TESTS = "#[cfg(test)]\nmod tests"


def circle(graph: Graph) -> list[str]:
    """Return nodes that lead back to the first of them; empty if there are none."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        for other in sorted(graph.get(node, ())):
            if found := visit(other, [*path, node]):
                return found
        done.add(node)
        return []

    return next((found for node in sorted(graph) if (found := visit(node, []))), [])


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def paths(tree: str) -> Iterator[list[str]]:
    """Yield the paths of a use declaration."""
    before, brace, inner = tree.strip().partition("{")
    if not brace:
        yield [word.strip() for word in before.split("::")]
        return
    depth, start, inner = 0, 0, inner.rpartition("}")[0] + ","
    for at, letter in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            if inner[start:at].strip():
                yield from paths(before + inner[start:at].strip())
            start = at + 1


def module(path: Path, root: Path) -> tuple[str, ...]:
    parts = path.relative_to(root).with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib") else parts


def files_of_the_core(root: Path) -> Graph:
    """Return which file uses which other; a module and those inside it are one matter."""
    source = root / "rust/core/src"
    modules = {module(path, source): path for path in source.rglob("*.rs")}
    graph: dict[str, set[str]] = {}
    for own, path in modules.items():
        if path.name in ("tests.rs", "fixtures.rs") or path.name.endswith("_tests.rs"):
            continue
        text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8").split(_TESTS)[0])
        for declared in _USE.findall(text):
            for words in paths(declared):
                base: tuple[str, ...] = own
                if words[0] == "crate":
                    base = ()
                elif words[0] == "super":
                    base = own[: -words.count("super")]
                elif (*own, words[0]) not in modules:
                    continue
                target = (*base, *(word for word in words if word not in ("crate", "super", "self")))
                while target and target not in modules:
                    target = target[:-1]
                inside = own[: len(target)] == target or target[: len(own)] == own
                if target and not inside:
                    graph.setdefault("/".join(own), set()).add("/".join(target))
    return graph


def packages_in_python(root: Path) -> Graph:
    """Return which package or module of ours imports which other, imports within functions included."""
    source = root / "python/paceline"
    graph: dict[str, set[str]] = {}
    for path in source.rglob("*.py"):
        own = (*path.relative_to(source).with_suffix("").parts, "")[0]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        typing = {
            inner
            for node in statements(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for inner in statements(node)
        }
        for node in statements(tree):
            if node in typing or not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            head, _, rest = node.module.partition(".")
            if head == "paceline":
                targets = [rest.split(".")[0]] if rest else [alias.name for alias in node.names]
                graph.setdefault(own, set()).update(name for name in targets if name != own)
    return graph


def test_no_files_of_the_core_use_each_other(root: Path) -> None:
    graph = files_of_the_core(root)
    assert "engine/cluster" in graph["engine/router"], "uses are found"
    assert circle(graph) == []


def test_no_packages_in_python_import_each_other(root: Path) -> None:
    graph = packages_in_python(root)
    assert "deployment" in graph["replaying"], "imports are found"
    assert circle(graph) == []
