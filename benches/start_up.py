"""Time a whole small command from its start to its end, in turns with the imports that it cannot do without.

    python benches/start_up.py --rounds 15
    python benches/start_up.py --against fb73292
    python benches/start_up.py --parts

A process replays `traces/azure-conv-1000.csv`, which takes the engine some milliseconds: the rest is
Python's start, imports and printing. In turns with it runs `python -c "import polars, numpy"`, and with
--against the same command on another commit's Python sources, with this tree's native module. With --parts
the times are of whose modules several commands import, and of what they do besides.
The bytecode of all is cached, as pip leaves it after an install. Times are of processors, user and system,
which depend less than others on what else the machine does. This tree must have been built (`make dev`).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULE = "_core.abi3.so"
TRACE = str(ROOT / "traces/azure-conv-1000.csv")
PROGRAM = ("-c", "import sys; from paceline.cli import main; sys.exit(main())")  # as pip's script does
OF_CLUSTER = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm")
COMMANDS = {
    "--version": ("--version",),
    "--help": ("--help",),
    "replay --help": ("replay", "--help"),
    "gpus": ("gpus",),
    "policies": ("policies",),
    "trace info": ("trace", "info", TRACE),
    "replay": ("replay", TRACE, *OF_CLUSTER),
}
LIBRARIES = ("-c", "import polars, numpy")
OWNERS = {
    "paceline": "paceline",
    "polars": "polars",
    "_polars_runtime_32": "polars",
    "numpy": "numpy",
    "cyclopts": "cyclopts",
    "attr": "cyclopts",
    "attrs": "cyclopts",
    "rich": "rich",
}
PARTS = (*dict.fromkeys(OWNERS.values()), "others", "besides", "modules of paceline")
MEASURED = """
import importlib._bootstrap as imports, json, sys
from time import process_time
own, inner, find = {}, [0.0], imports._find_and_load_unlocked
def timed(name, *rest):
    begun = process_time()
    inner.append(0.0)
    try:
        return find(name, *rest)
    finally:
        took = process_time() - begun
        own[name] = own.get(name, 0.0) + took - inner.pop()
        inner[-1] += took
imports._find_and_load_unlocked = timed
from paceline.cli import main
try:
    status = main()
finally:
    print(json.dumps(own), file=sys.stderr)
"""


def used() -> float:
    """Return the seconds of processors that the finished processes of this one took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def finished(words: tuple[str, ...], tree: Path, cache: Path) -> tuple[float, str]:
    """Return the seconds of a process of this interpreter with a tree's package, and its standard error."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(tree / "python"), "PYTHONPYCACHEPREFIX": str(cache)}
    before = used()
    done = subprocess.run(
        [sys.executable, *words], check=True, capture_output=True, env=environment, text=True
    )
    return used() - before, done.stderr


def checked_out(commit: str, folder: Path) -> Path:
    """Return a tree with a commit's Python sources and this tree's native module."""
    tree = folder / "other"
    tree.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, "python"], check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", str(tree)], check=True, input=archive.stdout)
    (tree / "python/paceline" / MODULE).write_bytes((ROOT / "python/paceline" / MODULE).read_bytes())
    return tree


def parts_of(command: tuple[str, ...], cache: Path) -> dict[str, float]:
    """Return the milliseconds that a command takes to import whose modules, and besides."""
    took, said = finished(("-c", MEASURED, *command), ROOT, cache)
    own: dict[str, float] = json.loads(said.splitlines()[-1])
    parts: Counter[str] = Counter()
    for module, seconds in own.items():
        parts[OWNERS.get(module.partition(".")[0], "others")] += 1000 * seconds
    parts["besides"] = 1000 * took - sum(parts.values())
    parts["modules of paceline"] = sum(module.partition(".")[0] == "paceline" for module in own)
    return {name: parts[name] for name in PARTS}


def print_parts(rounds: int, cache: Path) -> None:
    """Print a row a command: medians of the milliseconds by whose modules they import."""
    print(" ".join(f"{name:>{max(9, len(name))}}" for name in ("command      ", *PARTS)))
    for name, command in COMMANDS.items():
        rows = [parts_of(command, cache) for _ in range(rounds + 1)][1:]  # the first writes the bytecode
        medians = [statistics.median(row[part] for row in rows) for part in PARTS]
        cells = (f"{value:{max(9, len(part))}.0f}" for part, value in zip(PARTS, medians, strict=True))
        print(f"{name:<13}", *cells)


def print_turns(rounds: int, against: str | None, folder: Path) -> None:
    """Let the command, the libraries and another commit take turns; print medians and ratios."""
    cache = folder / "bytecode"
    command = (*PROGRAM, *COMMANDS["replay"])
    runs = {"this tree": (command, ROOT), "polars, numpy": (LIBRARIES, ROOT)}
    if against is not None:
        runs[against] = (command, checked_out(against, folder))
    for words, tree in runs.values():
        finished(words, tree, cache)  # the first writes the bytecode
    took: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, (words, tree) in runs.items():
            took[name].append(finished(words, tree, cache)[0])
    print(f"paceline {' '.join(COMMANDS['replay'])}, {rounds} rounds")
    for name, times in took.items():
        ratio = statistics.median(here / there for here, there in zip(took["this tree"], times, strict=True))
        said = "" if name == "this tree" else f"; this tree takes {ratio:.2f} of it (median of pairs)"
        print(f"{name:>14}: {statistics.median(times):.3f} s as a median, {min(times):.3f} s at best{said}")


def main() -> None:
    """Read the command line, and time what it asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", metavar="COMMIT", help="another commit, whose sources are timed too")
    parser.add_argument("--parts", action="store_true", help="the times of imports, by whose they are")
    parser.add_argument("--rounds", type=int, default=15, help="turns that each takes (15)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if chosen.parts:
            print_parts(chosen.rounds, Path(folder) / "bytecode")
        else:
            print_turns(chosen.rounds, chosen.against, Path(folder))


if __name__ == "__main__":
    main()
