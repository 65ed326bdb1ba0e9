"""The mutated copy of the engine: its sources, its module for Python and its test programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mutation.mutant import Mutant
from mutation.rewriting import Rewriter

ROOT = Path(__file__).resolve().parents[2]
SCOPE = (
    "instance/scheduler",
    "instance/effects",
    "instance/run",
    "instance/batch",
    "instance/ranks",
    "kv",
    "config/exclusions.rs",
)
"""Folders below ``rust/core/src`` whose sources are mutated, and files."""

SOURCES = "rust/core/src"
COPIED = ("rust", "benches", "python", "docs", "fuzz/seeds")
"""What the core and the package are built from; the core's tests read the documents."""

MODULE = Path(__file__).with_name("mutant.rs")
# Fast to build, and fast enough: no optimization across crates.
PROFILE = {
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "2",
    "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
    "CARGO_PROFILE_DEV_DEBUG": "0",
    "CARGO_INCREMENTAL": "0",
    "RUSTFLAGS": "--cap-lints=allow",
    "PYO3_PYTHON": sys.executable,
}


def sources() -> list[Path]:
    """Return the sources to mutate; those that have only tests are none of them."""
    found: list[Path] = []
    for scope in SCOPE:
        whole = ROOT / SOURCES / scope
        found += [whole] if whole.is_file() else sorted(whole.rglob("*.rs"))
    return [path for path in found if path.stem != "tests" and not path.stem.endswith("_tests")]


class Scratch:
    """The mutated copy, in a folder of its own.

    Attributes
    ----------
    package : Path
        Folder with the package ``paceline``, whose engine has all mutants.
    programs : list of Path
        Test programs of the core.
    mutants : list of Mutant
    refused : set of str
        Names of the mutants that the compiler does not take.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "python"
        self.programs: list[Path] = []
        self.mutants: list[Mutant] = []
        # Those of the latest build, so that files that did not change are not built again.
        self._noted = folder / "refused.json"
        self.refused: set[str] = set(json.loads(self._noted.read_text()) if self._noted.exists() else ())

    def build(self) -> None:
        """Write the copy and build it, without the mutants that the compiler refuses."""
        self._copy()
        while True:
            self._write()
            errors = list(self._errors())
            if not errors:
                break
            self.refused |= self._blamed(errors)
        self._noted.write_text(json.dumps(sorted(self.refused)))
        self._build_module()
        self._build_programs()

    def _copy(self) -> None:
        """Copy what is not mutated, and remove what is gone.

        A file that is the same stays, so that cargo does not build it again.
        """
        written = {*sources(), ROOT / SOURCES / "lib.rs"}
        for path in sorted((self.folder / SOURCES).rglob("*.rs")):
            if path.name != MODULE.name and not (ROOT / path.relative_to(self.folder)).exists():
                path.unlink()
        for folder in COPIED:
            for path in sorted((ROOT / folder).rglob("*")):
                if path.is_file() and path.suffix not in (".so", ".pyc") and path not in written:
                    self._put(path.relative_to(ROOT), path.read_bytes())
        for name in ("Cargo.toml", "Cargo.lock", "ARCHITECTURE.md"):
            self._put(Path(name), (ROOT / name).read_bytes())

    def _put(self, name: Path, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)

    def _write(self) -> None:
        """Write the sources with their mutants."""
        rewriter = Rewriter(refused=self.refused)
        for path in sources():
            file = path.relative_to(ROOT / SOURCES).as_posix()
            self._put(Path(SOURCES, file), rewriter.rewrite(file, path.read_bytes()).encode())
        self._put(Path(SOURCES, "mutant.rs"), MODULE.read_bytes())
        library = (ROOT / SOURCES / "lib.rs").read_bytes() + b"\n/// The mutants.\npub mod mutant;\n"
        self._put(Path(SOURCES, "lib.rs"), library)
        self.mutants = rewriter.mutants

    def _errors(self) -> Iterator[tuple[Path, int]]:
        """Yield the places at which the compiler refuses the core: a file and a line."""
        for said in self._cargo("check", "--release", "-p", "paceline-core"):
            message = said.get("message", {})
            if said.get("reason") != "compiler-message" or message.get("level") != "error":
                continue
            for span in message.get("spans", []):
                yield self.folder / span["file_name"], span["line_start"]

    def _blamed(self, errors: list[tuple[Path, int]]) -> set[str]:
        """Return the names of the mutants on these lines."""
        names = {mutant.number: mutant.name for mutant in self.mutants}
        blamed: set[str] = set()
        for path, line in errors:
            text = path.read_text().splitlines()[line - 1]
            blamed |= {names[int(number)] for number in re.findall(r"mutant::(?:is|on|note)\((\d+)\)", text)}
        if not blamed:
            raise RuntimeError(f"the mutated copy must compile without these lines' mutants: {errors}")
        return blamed

    def _build_module(self) -> None:
        list(self._cargo("build", "--release", "-p", "paceline-py", check=True))
        built = self.folder / "target" / "release" / "lib_core.so"
        shutil.copy(built, self.package / "paceline" / "_core.abi3.so")

    def _build_programs(self) -> None:
        said = self._cargo("test", "--no-run", "-p", "paceline-core", check=True)
        found = {
            one["executable"] for one in said if one.get("profile", {}).get("test") and one.get("executable")
        }
        self.programs = sorted(map(Path, found))

    def _cargo(self, *arguments: str, check: bool = False) -> Iterator[dict[str, Any]]:
        env = {**os.environ, **PROFILE, "CARGO_TARGET_DIR": str(self.folder / "target")}
        done = subprocess.run(
            ["cargo", *arguments, "--message-format=json"],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(
                f"cargo {' '.join(arguments)} must build the mutated copy:\n{done.stderr[-4000:]}"
            )
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                yield json.loads(line)
