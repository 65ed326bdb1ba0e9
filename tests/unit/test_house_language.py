"""The rule of CONTRIBUTING.md on language that a machine can check: the subject of a sentence is the thing.

Personal pronouns stand for people only. A request, an instance or a policy is named.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SUFFIXES = {".md", ".py", ".rs", ".toml", ".pyi", ".sh", ""}

# Written in two parts, so that this file keeps the rule itself.
BODIES = tuple(word + "body" for word in ("no", "some", "any", "every"))
ONES = tuple(word + "one" for word in ("some", "any", "every"))
PRONOUNS = ("wh" + "o", "wh" + "om")
REFUSED = re.compile(
    r"(?<![a-z])(?:"
    + "|".join((*BODIES, *ONES, *PRONOUNS, *(word + "ever" for word in PRONOUNS)))
    + r")(?![a-z])",
    re.IGNORECASE,
)
# People may be referred to as people: one of these words stands before the pronoun.
PEOPLE = re.compile(
    r"(?<![a-z])(?:authors?|callers?|contributors?|maintainers?|people|persons?|publishers?|readers?|users?)[\s#/*,]+$",
    re.IGNORECASE,
)


def violations(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and match of every place in a text that breaks the rule."""
    for match in REFUSED.finditer(text):
        if match.group().lower() in PRONOUNS and PEOPLE.search(text[: match.start()]):
            continue
        yield text.count("\n", 0, match.start()) + 1, " ".join(match.group().split())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the request wh" + "o waits", ["wh" + "o"]),
        ("Wh" + "oever is admitted last", ["Wh" + "oever"]),
        ("def test_no" + "body_waits()", ["no" + "body"]),
        ("what users wh" + "o wait\n// readers\n// wh" + "o read", []),
        ("the requests wh" + "ose prompts are cut", []),
    ],
)
def test_the_rule_finds_requests_and_passes_people(text: str, found: list[str]) -> None:
    assert [match for _, match in violations(text)] == found


def test_requests_are_named(root: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("needs a Git checkout, to know which files belong to the tree")
    names = [name for name in listed.stdout.split("\0") if (root / name).suffix in SUFFIXES]
    assert {name.partition("/")[0] for name in names} >= {"README.md", "docs", "python", "rust", "tests"}
    found = [
        f"{name}:{number}: {match!r}"
        for name in names
        if name != "LICENSE" and (root / name).is_file()
        for number, match in violations((root / name).read_text(encoding="utf-8"))
    ]
    assert not found, "name the request, the instance or the policy:\n" + "\n".join(found)


def test_words_with_one_meaning_are_used_for_it(root: Path) -> None:
    """*Rank* alone is the order of requests: GPUs that share a model are named with their parallelism."""
    glossary = (root / "docs/glossary.md").read_text(encoding="utf-8")
    for word in ("rank", "hold", "row"):
        assert len(re.findall(rf"^\| {word} \|", glossary, re.MULTILINE)) == 1, word
    engine = root / "rust/core/src/engine"
    named = [
        str(file.relative_to(root))
        for file in engine.rglob("*.rs")
        if re.search(r"\b(?:struct|enum|trait|fn) \w*[Rr]anks?\b", file.read_text(encoding="utf-8"))
    ]
    assert named == [], "the engine beside the instances knows no ranks of requests"
    instance = root / "rust/core/src/instance"
    booked = [
        str(file.relative_to(root))
        for file in instance.rglob("*.rs")
        if re.search(r"\b[Bb]ook(?:s|ed|ing)?\b|book_", file.read_text(encoding="utf-8"))
    ]
    assert booked == [], "routers keep books; a step or a run is applied"
