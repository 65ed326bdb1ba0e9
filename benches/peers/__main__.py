"""Measure the simulators, and write the tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from benches.peers.measuring import ROUNDS, measure, peers
from benches.peers.tables import write_tables

ROOT = Path(__file__).resolve().parents[2]
MEASURED = Path(__file__).parent / "measured.json"
CACHE = Path.home() / ".cache" / "paceline-peers"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benches.peers", description=__doc__)
    parser.add_argument("do", choices=("prepare", "measure", "table"))
    parser.add_argument("only", nargs="*", help="names of adapters (all)")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where simulators are installed")
    parser.add_argument("--measured", type=Path, default=MEASURED)
    parser.add_argument("--work", action="append", default=[], help="measure only this work (all)")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    if given.do == "table":
        write_tables(given.measured, ROOT / "COMPARE.md")
        return
    given.cache.mkdir(parents=True, exist_ok=True)
    if given.do == "measure":
        measure(given.cache.resolve(), given.measured, given.only, given.work, given.rounds)
        return
    for name, peer in peers().items():
        if not given.only or name in given.only:
            peer.prepare(given.cache.resolve())


if __name__ == "__main__":
    main()
