"""Search for a case that breaks a promise.

    python -m tests.search --seconds 3600 --seed 7 --workers 2 --save tests/search/found

Prints what was found, the smallest case of each kind, and how often each mechanism was drawn and seen at
work; ends with 1 where anything was found.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from search.case import Case, draw
from search.mechanisms import drawn
from search.process import Worker
from search.shrink import brief, shrink


@dataclass
class Found:
    """What a search came to."""

    seed: int
    cases: int = 0
    seconds: float = 0.0
    drawn: Counter[str] = field(default_factory=Counter)
    exercised: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, list[int]] = field(default_factory=dict)
    details: dict[tuple[str, int], str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def failed(self, number: int, kind: str, detail: str) -> None:
        self.kinds.setdefault(kind, []).append(number)
        self.details[kind, number] = detail


def search(
    seed: int, seconds: float, workers: int, package: Path | None = None, avoid: Sequence[str] = ()
) -> Found:
    """Check random cases for some time."""
    found = Found(seed)
    started = time.monotonic()
    threads = [
        threading.Thread(target=_work, args=(found, index, workers, started + seconds, package, avoid))
        for index in range(workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.seconds = time.monotonic() - started
    return found


def _work(
    found: Found, start: int, stride: int, deadline: float, package: Path | None, avoid: Sequence[str]
) -> None:
    number = start
    with Worker(package) as worker:
        while (left := deadline - time.monotonic()) > 0:
            worker.ask(seed=found.seed, start=number, stride=stride, seconds=left, avoid=list(avoid))
            for said in worker.answers():
                with found.lock:
                    number = _hear(found, said, number, stride)


def _hear(found: Found, said: dict[str, Any], number: int, stride: int) -> int:
    if "at" in said:
        return int(said["at"])
    if "died" in said:
        found.cases += 1
        found.failed(number, said["died"], "")
        return number + stride
    if said.get("failures"):
        (kind, detail), *others = said["failures"]
        also = "".join(f"; {other}" for other in sorted({one for one, _ in others} - {kind}))
        found.failed(said["number"], kind, detail + also)
    if "cases" in said:
        found.cases += said["cases"]
        for name in ("drawn", "exercised", "refused"):
            getattr(found, name).update(said[name])
    return int(said.get("next", number))


def suspects(found: Found, kind: str, most: int = 6) -> str:
    """Say which mechanisms are drawn more often in the cases of a kind than in all."""
    numbers = set(found.kinds[kind])
    accepted = max(found.cases - sum(found.refused.values()), 1)
    counts = Counter(name for number in numbers for name in drawn(draw(found.seed, number)))
    share = {name: count / len(numbers) for name, count in counts.items()}
    usual = {name: max(found.drawn[name], 1) / accepted for name in counts}
    ranked = sorted(counts, key=lambda name: share[name] * (1 - usual[name]) ** 4, reverse=True)
    return "; ".join(f"{name} ({share[name]:.0%}, of all {usual[name]:.0%})" for name in ranked[:most])


def smallest(
    found: Found, kind: str, *, most: int, seconds: float, package: Path | None = None
) -> list[tuple[int, Case]]:
    """Shrink some of the cases of a kind; keep those that differ in their mechanisms."""
    kept: dict[frozenset[str], tuple[int, Case]] = {}
    with Worker(package) as worker:
        for number in found.kinds[kind][:most]:

            def fails(case: Case, number: int = number) -> bool:
                failures, _ = worker.check(case, number)
                return bool(failures) and failures[0][0] == kind

            case = draw(found.seed, number)
            if not fails(case):
                print(f"  case {found.seed}:{number} passes with more time", flush=True)
                continue
            small = shrink(case, fails, seconds)
            mark = frozenset(drawn(small))
            if mark not in kept or len(small.to_json()) < len(kept[mark][1].to_json()):
                kept[mark] = (number, small)
    return sorted(kept.values(), key=lambda one: len(one[1].to_json()))


def main() -> None:
    """Read the command line, search and report."""
    parser = argparse.ArgumentParser(prog="tests.search", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long to search (60)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other cases (1)")
    parser.add_argument("--workers", type=int, default=1, help="processes (1)")
    parser.add_argument("--save", type=Path, help="folder for the smallest cases")
    parser.add_argument("--package", type=Path, help="folder with the package paceline to check")
    parser.add_argument("--shrink", type=float, default=20, help="seconds to make a case smaller (20)")
    parser.add_argument("--each", type=int, default=2, help="cases of a kind that are made smaller (2)")
    parser.add_argument(
        "--rare", type=float, default=0.02, help="share below which a mechanism is rare (0.02)"
    )
    parser.add_argument(
        "--avoid",
        action="append",
        default=[],
        help="leave out cases with this mechanism, as the table names it",
    )
    given = parser.parse_args()
    found = search(given.seed, given.seconds, given.workers, given.package, given.avoid)
    report(found, given.rare)
    for kind in sorted(found.kinds, key=lambda kind: -len(found.kinds[kind])):
        print(f"\n{len(set(found.kinds[kind]))} cases: {kind}\n  often with: {suspects(found, kind)}")
        for number, case in smallest(
            found, kind, most=given.each, seconds=given.shrink, package=given.package
        ):
            print(f"  case {found.seed}:{number}: {found.details[kind, number][:400]}")
            print(f"  says: {brief(case)}\n  {case.to_json().decode()}", flush=True)
            if given.save:
                given.save.mkdir(parents=True, exist_ok=True)
                slug = "".join(c if c.isalnum() else "-" for c in kind.lower())[:60].strip("-")
                (given.save / f"{slug}-{found.seed}-{number}.json").write_bytes(case.to_json() + b"\n")
    sys.exit(1 if found.kinds else 0)


def report(found: Found, rare: float) -> None:
    """Print how much was drawn, and which mechanisms rarely."""
    failed = len({number for numbers in found.kinds.values() for number in numbers})
    refused = sum(found.refused.values())
    print(
        f"seed {found.seed}: {found.cases} cases in {found.seconds:.0f} s "
        f"({found.cases / max(found.seconds, 1e-9):.0f}/s), {refused} refused, {failed} failed"
    )
    for reason, count in found.refused.most_common():
        print(f"  refused {count:6}  {reason}")
    accepted = max(found.cases - refused, 1)
    for title, counter in (("drawn", found.drawn), ("exercised", found.exercised)):
        print(f"{title}, of {accepted} accepted:")
        for name, count in sorted(counter.items()):
            share = count / accepted
            print(f"  {'*' if share < rare else ' '} {count:7} {share:7.2%}  {name}")


if __name__ == "__main__":
    main()
