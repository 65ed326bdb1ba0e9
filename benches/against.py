"""Time a case of `end_to_end.py` on this tree and on another commit, in alternating runs.

    python benches/against.py fb73292 --case "8 instances, below saturation" --rounds 8

On a busy machine the same run varies by half within minutes. So runs of the two alternate, and the result is
the median of the ratios of neighbouring runs. The other commit is built in a worktree in a temporary folder
and runs with its own Python and benchmark. This tree must have been built (`make dev`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
PLAIN = "8 instances, below saturation"
LIBRARY = {"darwin": "lib_core.dylib", "win32": "_core.dll"}.get(sys.platform, "lib_core.so")
MODULE = "_core.pyd" if sys.platform == "win32" else "_core.abi3.so"


def build(tree: Path) -> None:
    """Build the native module of a tree into its package."""
    subprocess.run(
        ["cargo", "build", "--release", "--quiet", "-p", "paceline-py"],
        cwd=tree,
        check=True,
        env={**os.environ, "CARGO_TARGET_DIR": str(tree / "target"), "PYO3_PYTHON": sys.executable},
    )
    built = tree / "target/release" / LIBRARY
    (tree / "python/paceline" / MODULE).write_bytes(built.read_bytes())


def replay_s(tree: Path, case: str) -> float:
    """Return the time of a case by a tree's benchmark: the shortest of its first three replays."""
    command = [sys.executable, str(tree / "benches/end_to_end.py"), "--case", case]
    environment = {**os.environ, "PYTHONPATH": str(tree / "python")}
    answer = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True, env=environment)
    row = json.loads(answer.stdout)
    # Older benchmarks replay three times and report the shortest.
    return float(min(row.get("took_s", [row["replay_s"]])[:3]))


def main() -> None:
    """Read the command line, build both trees, alternate the runs and print the ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("commit", help="what to compare with")
    parser.add_argument("--case", default=PLAIN, help=f"a case of end_to_end.py that both have ({PLAIN})")
    parser.add_argument("--rounds", type=int, default=8, help="turns that each takes (8)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(other), chosen.commit], check=True)
        if SHARED.exists():
            (Path(folder) / SHARED.name).symlink_to(SHARED)
        try:
            build(other)
            pairs = [
                (replay_s(other, chosen.case), replay_s(ROOT, chosen.case)) for _ in range(chosen.rounds)
            ]
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)
    then, now = zip(*pairs, strict=True)
    ratio = statistics.median(here / there for there, here in pairs)
    print(f"{chosen.case}, {chosen.rounds} rounds")
    print(f"{chosen.commit:>12}: {min(then):.3f} s at best, {statistics.median(then):.3f} s as a median")
    print(f"{'here':>12}: {min(now):.3f} s at best, {statistics.median(now):.3f} s as a median")
    print(f"{'ratio':>12}: {ratio:.3f}, the median over neighbours")


if __name__ == "__main__":
    main()
