"""Every command in a document runs as it is written, or is listed here with the reason why it does not."""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import paceline as package
from cli.running import Run
from paceline import read_trace
from paceline.benchmarks import write_bench

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    str(file.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "traces/*.md")
    for file in ROOT.glob(pattern)
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = ("", "sh")
REST = "…"
"""In what is printed: the rest of a line, or any number of lines."""

RUN_ELSEWHERE = {
    "docs/guides/benchmarks.md": "tests/cli/test_benchmarks_guide.py",
    "docs/guides/large-traces.md": "tests/cli/test_streaming.py",
    "docs/guides/sweeps.md": "tests/cli/test_sweeps_guide.py",
}

NOT_RUN = {
    "study": "the studies take minutes, and most need real traces: tests/cli/test_study.py runs quick ones",
    "profile": "measures kernels on a GPU: tests/unit/profiling has a device that is none",
    "profiles import": "imports a package of another maker, or what was measured: tests/cli/test_profiles.py",
    "profiles show aisimulate": "shows an imported profile: tests/cli/test_profiles.py",
    "validate": "reads measured runs: tests/unit/validation",
    "rank train": "needs torch and an encoder: tests/rank",
    "calibrate --host": "reads an engine's two runs, with imported kernels: tests/unit/calibration",
    "calibrate h100-sxm-x2": "takes minutes, from eight starts: tests/unit/calibration",
    "replay trace.csv --model llama-3.1-70b": "takes imported kernels: tests/cli/test_profiles.py",
}
"""By the beginning of the command."""


def trace(place: Path, name: str) -> None:
    package.synthesize("azure-conv", requests=60, rate=5.0, seed=1).write(place / name)


def bench(place: Path, name: str) -> None:
    cluster = package.Cluster([package.Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    drawn = package.synthesize("azure-conv", requests=20, rate=5.0, seed=1)
    write_bench(package.replay(drawn, cluster), place / name)


def azure(place: Path, name: str) -> None:
    shutil.copy(ROOT / "tests/data/traces" / name, place / name)


GIVEN: dict[str, dict[str, Callable[[Path, str], None]]] = {
    "README.md": {"azure2023_conv.csv.zst": azure},
    "docs/guides/calibrate.md": {"bench.json": bench},
    "docs/guides/profiles.md": {"trace.csv": trace},
    "docs/tutorial/capacity.md": {"trace.csv": trace},
}
"""Files that a reader has, by the documents that read them."""

TOML = {"docs/guides/calibrate.md": "observations.toml", "docs/guides/command-line.md": "own.toml"}
"""Files that documents show."""


def commands(block: str) -> Iterator[list[str]]:
    """Yield the words of each command of Paceline in a block, without what the shell takes."""
    for line in block.replace("\\\n", " ").splitlines():
        for part in line.split(" && "):
            if part.startswith("paceline "):
                yield shlex.split(part, comments=True)[1:]


def reason(words: list[str]) -> str | None:
    """Return why a command is not run."""
    line = " ".join(words) + " "
    return next(
        (why for start, why in NOT_RUN.items() if line.startswith((start + " ", start + "/", start + "-"))),
        None,
    )


def blocks(document: str) -> list[tuple[str, str]]:
    """Return the language and the text of each block."""
    return FENCE.findall((ROOT / document).read_text(encoding="utf-8"))


def run(paceline: Run, words: list[str]) -> str:
    """Run a command, with its output in the file that the shell would write."""
    target = Path(words[-1]) if ">" in words else None
    words = words[: words.index(">")] if target else words
    done = paceline(*words)
    assert done.returncode == 0, (words, done.stderr)
    if target is not None and not target.is_absolute() and "~" not in str(target):
        target.write_text(done.stdout, encoding="utf-8")
    return done.stdout


def shows(printed: str, shown: str) -> bool:
    """Return whether what was printed is what a document shows, whose dots stand for any lines."""
    lines = [
        r"(?:.*\n)*?" if line.strip() == REST else re.escape(line) + r" *\n" for line in shown.splitlines()
    ]
    return re.search("".join(lines), printed + "\n") is not None


WITH_COMMANDS = [
    name
    for name in DOCUMENTS
    if name not in RUN_ELSEWHERE
    and any(reason(words) is None for kind, text in blocks(name) if kind in SHELL for words in commands(text))
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("document", WITH_COMMANDS)
def test_the_commands_in_a_document_run(document: str, paceline: Run, tmp_path: Path) -> None:
    (tmp_path / "traces").symlink_to(ROOT / "traces")
    for name, make in GIVEN.get(document, {}).items():
        make(tmp_path, name)
    for kind, block in blocks(document):
        if kind == "toml":
            name = TOML.get(document)
            assert name, "a file that a document shows has a name"
            (tmp_path / name).write_text(block, encoding="utf-8")
    printed = ""
    for kind, block in blocks(document):
        asked = list(commands(block)) if kind in SHELL else []
        if kind == "" and not asked and printed and not block.startswith(("pip ", "vllm ")):
            assert shows(printed, block), printed
        printed = "".join(run(paceline, words) for words in asked if reason(words) is None)


def test_every_reason_is_one_of_a_command() -> None:
    asked = [
        words
        for name in DOCUMENTS
        for kind, text in blocks(name)
        if kind in SHELL
        for words in commands(text)
    ]
    why = {reason(words) for words in asked}
    assert set(NOT_RUN.values()) <= why
    assert all((ROOT / test).is_file() for test in RUN_ELSEWHERE.values())


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_extras_that_a_document_installs_are_declared(document: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for kind, text in blocks(document):
        if kind in SHELL:
            assert set(re.findall(r"'(?:\.|paceline)\[(\w+)\]'", text)) <= set(
                project["optional-dependencies"]
            )


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_the_examples_of_the_schema_are_read(suffix: str, tmp_path: Path) -> None:
    text = next(text for kind, text in blocks("traces/schema.md") if kind == suffix)
    path = tmp_path / {"csv": "trace.csv", "json": "trace.jsonl"}[suffix]
    path.write_text(text, encoding="utf-8")
    assert read_trace(path).frame["prompt_tokens"][0] == 1100
