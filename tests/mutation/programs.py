"""The core's own tests: which mutants each reaches, and whether they notice one."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutation.mutant import Mutant

LONGER = 10
SHORTEST_S = 3
MOST_S = 1.5
"""For the tests of other files with a mutant, by their processor times without it."""
# The same examples each time, and a failure as it is first found.
ENV = {"PROPTEST_RNG_SEED": "15", "PROPTEST_MAX_SHRINK_ITERS": "0", "PROPTEST_FAILURE_PERSISTENCE": "Off"}


@dataclass(frozen=True, slots=True)
class Test:
    """A test of a program, the numbers of the mutants that it reaches, and its processor time."""

    program: Path
    name: str
    reached: frozenset[int]
    seconds: float


def modules(file: str) -> tuple[str, ...]:
    """Return how the names of a file's own tests begin: in it, or beside it."""
    name = file.removesuffix(".rs").removesuffix("/mod").replace("/", "::")
    return f"{name}::tests::", f"{name}_tests::"


def tests(programs: Sequence[Path], only: tuple[str, ...]) -> list[Test]:
    """Run each test by itself without a mutant; ``only``: those whose names begin so.

    Raises
    ------
    RuntimeError
        If one fails.
    """
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for program in programs:
            listed = subprocess.run(
                [program, "--list", "--format=terse"], capture_output=True, text=True, check=True
            )
            for line in listed.stdout.splitlines():
                name, _, kind = line.rpartition(": ")
                if kind == "test" and name.startswith(only):
                    found.append(_alone(program, name, Path(folder, "reached")))
    return found


def _alone(program: Path, name: str, reached: Path) -> Test:
    reached.write_text("")
    started = _processor_time()
    status = _run(program, [name], 600, MUTANT="0", MUTANTS_REACHED=str(reached))
    if status:
        raise RuntimeError(f"the core's test {name} must pass without a mutant, and fails")
    numbers = frozenset(map(int, reached.read_text().split()))
    return Test(program, name, numbers, _processor_time() - started)


def _processor_time() -> float:
    """Return that of all programs that have run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ask(mutant: Mutant, found: Sequence[Test]) -> tuple[bool, int]:
    """Run tests that reach a mutant: those of its file, then as many as there is time for, the fastest first.

    Returns
    -------
    tuple of bool and int
        Whether one fails, and how many ran.
    """
    own = modules(mutant.file)
    reaching = [test for test in found if mutant.number in test.reached]
    reaching.sort(key=lambda test: (not test.name.startswith(own), test.seconds))
    asked, spent = [], 0.0
    for test in reaching:
        spent += test.seconds
        if spent <= MOST_S or test.name.startswith(own):
            asked.append(test)
    for program in dict.fromkeys(test.program for test in asked):
        several = [test for test in asked if test.program == program]
        limit = SHORTEST_S + LONGER * sum(test.seconds for test in several)
        if _run(program, [test.name for test in several], int(limit), MUTANT=str(mutant.number)):
            return True, len(asked)
    return False, len(asked)


def _run(program: Path, names: Sequence[str], seconds: int, **env: str) -> int:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    return subprocess.run(
        [program, "--exact", "--test-threads=1", *names],
        cwd=program.parents[3] / "rust" / "core",
        env={**os.environ, **ENV, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=limited,
        check=False,
    ).returncode
