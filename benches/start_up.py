"""Time a whole small command from its start to its end, in turns with the imports that it cannot do without.

    python benches/start_up.py --rounds 15
    python benches/start_up.py --against fb73292

A process replays `traces/azure-conv-1000.csv`, which takes the engine some milliseconds: the rest is
Python's start, imports and printing. In turns with it runs `python -c "import polars, numpy"`, and with
--against the same command on another commit's Python sources, with this tree's native module. The bytecode of
all is cached, as pip leaves it after an install. This tree must have been built (`make dev`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULE = "_core.pyd" if sys.platform == "win32" else "_core.abi3.so"
REPLAY = ("-m", "paceline", "replay", str(ROOT / "traces/azure-conv-1000.csv"))
COMMAND = (*REPLAY, "--model", "llama-3.1-8b", "--gpu", "h100-sxm")
LIBRARIES = ("-c", "import polars, numpy")


def seconds(words: tuple[str, ...], tree: Path, cache: Path) -> float:
    """Return the time of a process of this interpreter with a tree's package."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(tree / "python"), "PYTHONPYCACHEPREFIX": str(cache)}
    begun = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment)
    return time.perf_counter() - begun


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


def main() -> None:
    """Read the command line, take turns, and print medians and ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", metavar="COMMIT", help="another commit, whose sources are timed too")
    parser.add_argument("--rounds", type=int, default=15, help="turns that each takes (15)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "bytecode"
        runs = {"this tree": (COMMAND, ROOT), "polars, numpy": (LIBRARIES, ROOT)}
        if chosen.against is not None:
            runs[chosen.against] = (COMMAND, checked_out(chosen.against, Path(folder)))
        for words, tree in runs.values():
            seconds(words, tree, cache)  # the first writes the bytecode
        took: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(chosen.rounds):
            for name, (words, tree) in runs.items():
                took[name].append(seconds(words, tree, cache))
    print(f"paceline {' '.join(COMMAND[2:])}, {chosen.rounds} rounds")
    for name, times in took.items():
        ratio = statistics.median(here / there for here, there in zip(took["this tree"], times, strict=True))
        said = "" if name == "this tree" else f"; this tree takes {ratio:.2f} of it (median of pairs)"
        print(f"{name:>14}: {statistics.median(times):.3f} s as a median, {min(times):.3f} s at best{said}")


if __name__ == "__main__":
    main()
