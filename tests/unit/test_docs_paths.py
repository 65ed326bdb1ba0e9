"""What documents say of the tree exists: each path, each function in its file, each place in a how-to."""

from __future__ import annotations

import pydoc
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "DESIGN.md",
    "README.md",
    "docs/determinism.md",
    "docs/how-to-add.md",
    "docs/invariants.md",
    "docs/life-of-a-request.md",
    "docs/reference/policy-semantics.md",
)
THERE = [page for page in PAGES if (ROOT / page).is_file()]

CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[`([\w:]+)(?:\(\))?`\]\(([^)#\s]+\.(?:rs|py))(?:#[^)]*)?\)")
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*/?")
SUFFIXES = (".rs", ".py", ".pyi", ".md", ".toml")

# What every file must be named by, that names a witness of the kind: adding another takes the same files.
WITNESSES = {
    "A stage": r"SwapIn|swap_in",
    "A request field": r"AttainedS|attained_s",
    "An instance field": r"HeadBlocks|head_blocks",
    "A trace column": r"tenant",
}
SOURCES = ("rust/core/src", "rust/py/src", "python/paceline", "tests/search", "tests/differential", "fuzz")

# Policies use what there is; and what is only true of the witness.
USERS = ("python/paceline/policies/", "python/paceline/study/", "python/paceline/synthesis/")
BESIDE = {
    "A stage": {
        # Where requests are ranked, they are swapped in by their admission.
        "rust/core/src/instance/scheduler/admit.rs",
        # Beside a reserve they are swapped in as others are accepted.
        "rust/core/src/instance/effects/offers.rs",
    },
    "An instance field": {
        # It says a real router's rule, as policies do.
        "python/paceline/conformance/routers/llumnix.py",
    },
    "A trace column": {
        # A warning of names of tenants.
        "python/paceline/policy/misuse.py",
        # Tenants that rules name are told at the start.
        "python/paceline/simulation/simulation.py",
        # Accumulators group by tenant.
        "python/paceline/policy/expressions/accumulated.py",
        "python/paceline/policy/ranking.py",
        "python/paceline/testing/reference/policy_sim/accumulators.py",
        "rust/core/src/config/accumulator.rs",
        "rust/core/src/instance/effects/accumulators.rs",
        "rust/core/src/instance/observers/accumulators/mod.rs",
        "rust/core/src/instance/observers/accumulators/tests.rs",
        "tests/differential/accumulators.py",
        # Agents' calls have what their formats know of them, a tenant where there is one.
        "python/paceline/trace/calls.py",
        "python/paceline/trace/formats/tracelab.py",
        # A tenant has a name, and so its own kind of expression.
        "python/paceline/policy/expressions/tree.py",
        # A request that is held may block those of its tenant.
        "python/paceline/policy/at_router.py",
        "python/paceline/testing/reference/policy_sim/cluster.py",
        "python/paceline/testing/reference/policy_sim/rules.py",
        "rust/core/src/engine/held/blocked.rs",
        "rust/core/src/engine/held/pass.rs",
        "tests/differential/test_routers.py",
        # A report counts a sampled replay's requests by tenant.
        "python/paceline/report/data/sampled.py",
        "python/paceline/report/replayed.py",
        "python/paceline/report/sections/over_time.py",
        "python/paceline/policy/expressions/kinds.py",
        "python/paceline/policy/expressions/wire.py",
        "python/paceline/policy/wire.py",
        "python/paceline/policy/scheduler.py",
        "python/paceline/replaying.py",
        "python/paceline/synthesis/servegen.py",
        "tests/search/spelled/expressions.py",
        "tests/search/draw/rules.py",
        "fuzz/fuzz_targets/configuration.rs",
        # The router's timeline is kept by tenant.
        "python/paceline/result/router_timeline.py",
        # An organisation of that format is a tenant.
        "python/paceline/trace/formats/baseten.py",
        # An example groups by it.
        "python/paceline/result/result.py",
        "python/paceline/result/timeline.py",
        "python/paceline/result/over_time.py",
        "python/paceline/result/save.py",
        "python/paceline/result/loading.py",
        "python/paceline/cli/replay.py",
        # A key of affinity.
        "rust/core/src/engine/router/affinity.rs",
        "rust/core/src/policy/rule.rs",
        "python/paceline/policy/rules.py",
        # What makes it a request field, too.
        "rust/core/src/policy/fields.rs",
        "rust/core/src/engine/router/callback.rs",
        "rust/core/src/instance/view/request.rs",
        "python/paceline/policy/expressions/namespaces.py",
        "python/paceline/testing/reference/policy_sim/request_fields.py",
        "tests/search/draw/fields.py",
        "tests/differential/expressions.py",
    },
}


def codes(text: str) -> Iterator[str]:
    """Yield what stands between backticks, fenced blocks left out."""
    yield from CODE.findall(FENCE.sub("", text))


def is_path(code: str) -> bool:
    """Whether a code looks like a file or folder of the tree, and is not built in it or beside it."""
    return (
        not code.startswith((".venv/", "../"))
        and bool(PATH.fullmatch(code))
        and ("/" in code or code.endswith(SUFFIXES))
    )


def absent(path: str) -> bool:
    """Whether a path does not exist; what is to be named by the reader needs the folder that it goes to."""
    parts = path.rstrip("/").split("/")
    to_name = next((at for at, part in enumerate(parts) if "NAME" in part), None)
    if to_name is not None:
        return not (ROOT / "/".join(parts[:to_name])).is_dir()
    return not ((ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).exists())


def defines(file: Path, name: str) -> bool:
    """Whether a source file defines a function or a type; of ``Type::function`` the last name counts."""
    word = re.escape(name.rpartition("::")[2])
    kinds = "def|class" if file.suffix == ".py" else "fn|struct|enum|trait|type|const|static"
    text = file.read_text(encoding="utf-8")
    return bool(re.search(rf"^[^/#\n]*\b(?:{kinds})\s+{word}\b", text, re.MULTILINE))


def faults(text: str, folder: Path = ROOT) -> list[str]:
    """Return what a page names that does not exist; its links start from its folder."""
    found = []
    for code in codes(text):
        file, colons, name = code.partition("::")
        if is_path(file) and absent(file):
            found.append(f"{code}: there is no {file}")
        elif colons and is_path(file) and not defines(ROOT / file, name):
            found.append(f"{code}: {file} does not define {name}")
        elif re.fullmatch(r"paceline(\.\w+)+", code) and pydoc.locate(code) is None:
            found.append(f"{code}: there is no such module or name")
    for name, target in LINK.findall(text):
        file_there = (folder / target).resolve()
        if not file_there.is_file() or not defines(file_there, name):
            found.append(f"[{name}]({target}): that file does not define it")
    return found


def section(title: str) -> str:
    """Return a section of the how-to."""
    text = (ROOT / "docs/how-to-add.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/how-to-add.md has no section {title!r}"
    return found[1]


@cache
def sources() -> dict[str, str]:
    """Return the text of each source file by its path."""
    files = (
        file for folder in SOURCES for file in (ROOT / folder).rglob("*") if file.suffix in {".rs", ".py"}
    )
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}


@pytest.mark.parametrize("page", THERE)
def test_what_a_page_names_exists(page: str) -> None:
    assert faults((ROOT / page).read_text(encoding="utf-8"), (ROOT / page).parent) == []


@pytest.mark.parametrize("title", WITNESSES)
def test_a_how_to_names_every_file_that_names_a_witness(title: str) -> None:
    witness = re.compile(rf"\b(?:{WITNESSES[title]})\b")
    needed = {name for name, text in sources().items() if witness.search(text)}
    assert needed, "the witness has another name now"
    needed = {name for name in needed if not name.startswith(USERS)} - BESIDE.get(title, set())
    links = {target.removeprefix("../") for _, target in LINK.findall(section(title))}
    assert sorted(needed - {*codes(section(title)), *links}) == []


def test_exceptions_from_the_how_to_still_exist() -> None:
    assert [name for names in BESIDE.values() for name in names if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("`rust/core/src/nothing.rs`", "there is no"),
        ("`rust/core/nowhere/`", "there is no"),
        ("`nowhere/NAME.py`", "there is no"),
        ("`rust/core/src/trace/mod.rs::vanish`", "does not define"),
        ("`paceline.policies.nothing`", "no such"),
        ("[`vanish`](rust/core/src/trace/mod.rs)", "does not define"),
        ("[`Trace::vanish`](rust/core/src/trace/mod.rs#L1)", "does not define"),
        ("[`validate`](rust/core/src/nothing.rs)", "does not define"),
    ],
)
def test_what_does_not_exist_is_found(text: str, fault: str) -> None:
    assert [fault in found for found in faults(text)] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "`rust/core/src/trace/mod.rs`",
        "`python/paceline/policies/NAME.py`",
        "`rust/core/src/trace/mod.rs::validate`",
        "`paceline.policies.vllm`",
        "[`validate`](rust/core/src/trace/mod.rs)",
        "[`Trace::validate`](rust/core/src/trace/mod.rs#L1)",
        "`x // 2`, `max_num_seqs`, `inst.kv_tokens`",
    ],
)
def test_what_exists_is_not_found_missing(text: str) -> None:
    assert faults(text) == []
