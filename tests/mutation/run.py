"""Change the engine in one place at a time, and list the changes that no test notices.

    make mutants
    python -m tests.mutation --file instance/scheduler/resume.rs

One build has all mutants of the sources in scope; a number picks the active one. A mutant is killed by
replays that reach it and whose outcome is known: logs of real schedulers, cases that `make search` once found
and drawn cases, on which the unchanged engine agrees with the reference simulator and keeps every invariant.
What they do not kill, the core's own tests may. For what is left without a reason, cases are drawn that have
the mechanisms of those that reach it, and others that are near those. What survives must be in survivors.toml
with its reason: if another does, the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mutation.mutant import Mutant
from mutation.scratch import ROOT, Scratch

if TYPE_CHECKING:
    from mutation.cases import Checked, Known
    from mutation.covering import Replays

SEED = 15
CASES = 3000
MOST = 60
ROUNDS = (1, 3, 10, 30)
"""Replays of each mutant after which the next ones are chosen anew."""
PARENTS = 6
CHILDREN = 6
GENERATIONS = 2
"""Of each mutant that is left: replays that reach it, cases near each of these, and how often."""
ALIKE = 60
"""Replays of each mutant that is left, before: among them further draws that are like those that reach it."""
TESTS_AFTER = 3
"""Replays of each mutant before the core's tests are run with it."""


def main() -> None:
    """Read the command line, build, run and report."""
    given = _command_line()
    started = time.monotonic()
    scratch = Scratch(given.folder)
    scratch.build()
    _say(started, f"built {len(scratch.mutants)} mutants; the compiler refuses {len(scratch.refused)} more")
    sys.exit(_report(_ask(scratch, given, started), whole=given.file is None))


def _ask(scratch: Scratch, given: argparse.Namespace, started: float) -> dict[str, Any]:
    """Ask every mutant; return what is found of each, by its name."""
    # The package is that of the mutated copy, which exists only now.
    sys.path.insert(0, str(scratch.package))
    from mutation import cases, covering, programs

    before = json.loads(given.results.read_text()) if given.again else {}
    before = {one.name: before[one.name] for one in scratch.mutants if one.name in before}
    chosen = [one for one in scratch.mutants if given.file is None or one.file.startswith(given.file)]
    chosen = [one for one in chosen if not before.get(one.name, {}).get("killed")]
    found = {one.number: covering.Found(one.line) for one in chosen}
    engine = covering.Engine(scratch.package / "paceline" / "_core.abi3.so", len(scratch.mutants))
    noticed = [(one.place, before[one.name]["by"]) for one in scratch.mutants if one.name in before]
    replays = covering.Replays(engine, {one.number: one.place for one in chosen}, noticed)
    for several in (cases.found(), cases.drawn(given.seed, given.cases), cases.logs()):
        for known in sorted(several, key=lambda one: one.size):
            replays.add(known)
        _say(started, f"{replays.ran} replays without a mutant; the engine refuses {replays.refused}")
    own = tuple(name for one in chosen for name in programs.modules(one.file))
    tests = programs.tests(scratch.programs, own if given.near else ("",))
    _say(started, f"{len(tests)} tests of the core")
    for most in (*(few for few in ROUNDS if few < given.most), given.most):
        replays.ask(found, most)
        if most == min(TESTS_AFTER, given.most):
            for one in chosen:
                if found[one.number].killed is None:
                    noticed, found[one.number].tests = programs.ask(one, tests)
                    found[one.number].killed = "core" if noticed else None
        left = sum(one.killed is None for one in found.values())
        _say(started, f"{left} mutants are left after {most} replays of each, {replays.asked} in all")
        _save(given.results, before, chosen, found)
    for said in _ask_further(replays, chosen, found, given):
        _say(started, said)
        _save(given.results, before, chosen, found)
    return _save(given.results, before, chosen, found)


def _ask_further(
    replays: Replays, chosen: Sequence[Mutant], found: Mapping[int, Any], given: argparse.Namespace
) -> Iterator[str]:
    """Ask all found cases, further draws and cases near others about the mutants left without a reason.

    Yields what was done.
    """
    from mutation import alike, cases

    left = _unexplained(chosen, found)
    replays.ask_all({number: found[number] for number in left}, {one.name for one in cases.found()})
    left = _unexplained(chosen, found)
    yield f"{len(left)} are left after all cases that the search once found"
    wanted = alike.wanted((_checked(replays.reaching(one)) for one in left), _checked(replays.all()))
    for known in alike.drawn(given.seed, given.cases, wanted):
        replays.add(known)
    replays.ask_more({number: found[number] for number in left}, ALIKE)
    left = _unexplained(chosen, found)
    yield f"{len(left)} are left after {replays.asked} replays of {replays.ran} draws"
    left_out = [*replays.left_out]
    for _ in range(GENERATIONS):
        replays = _near(replays, left)
        replays.ask_more({number: found[number] for number in left}, PARENTS * CHILDREN)
        left = _unexplained(chosen, found)
        yield f"{len(left)} are left after {replays.asked} replays of {replays.ran} near cases"
        left_out += replays.left_out
    yield f"left out, as the unchanged engine fails: {', '.join(left_out) or 'none'}"


def _checked(several: Iterable[Known]) -> list[Checked]:
    from mutation import cases

    return [one for one in several if isinstance(one, cases.Checked)]


def _unexplained(chosen: Sequence[Mutant], found: Mapping[int, Any]) -> dict[int, str]:
    """Return the places of those that are left without a reason."""
    from mutation import survivors

    known = survivors.read()
    left = [one for one in chosen if found[one.number].killed is None]
    return {
        one.number: one.place
        for one in left
        if known.reason(one.name, asdict(found[one.number]) | {"reached": found[one.number].reached}) is None
    }


def _near(replays: Replays, left: Mapping[int, str]) -> Replays:
    """Return replays of cases near those that reach these mutants."""
    from mutation import cases

    parents = {one.name: one for number in left for one in replays.around(number, PARENTS)}
    near = replays.others(left)
    for known in cases.around(_checked(parents.values()), CHILDREN):
        near.add(known)
    return near


def _save(
    file: Path, before: dict[str, Any], chosen: Sequence[Mutant], found: Mapping[int, Any]
) -> dict[str, Any]:
    """Write what is found of each mutant, by its name, and return it."""
    several = {one.name: asdict(found[one.number]) for one in chosen}
    results = before | {
        name: one | {"reached": bool(one["ran"] or one["tests"])} for name, one in several.items()
    }
    file.write_text(json.dumps(results, indent=1))
    return results


def _report(results: dict[str, Any], *, whole: bool) -> int:
    """Print the counts and what survives without a reason; return the exit status."""
    from mutation import survivors

    known = survivors.read()
    left = {name: found for name, found in results.items() if not found["killed"]}
    core = sum(found["killed"] == "core" for found in results.values())
    replays = len(results) - len(left) - core
    unreached = sum(not found["reached"] for found in left.values())
    print(f"{len(results)} mutants: {replays} killed by replays, {core} of the others by the core's tests")
    print(f"{len(left)} survive, {unreached} of them never reached")
    reasons = {name: known.reason(name, found) for name, found in left.items()}
    for reason, count in Counter(filter(None, reasons.values())).most_common():
        print(f"  {count}: {reason}")
    unexplained = [name for name, reason in reasons.items() if reason is None]
    for name in unexplained:
        told = _told(left[name]) if left[name]["reached"] else "not reached"
        print(f"unexplained: {name} [line {left[name]['line']}; {told}]")
    for name in known.listed:
        if results.get(name, {}).get("killed"):
            print(f"listed, but killed: {name}")
        elif whole and name not in results:
            print(f"listed, but no mutant: {name}")
    return 1 if unexplained else 0


def _told(found: dict[str, Any]) -> str:
    facts = {"replays": found["ran"], "tests": found["tests"], "that differ": len(found["differ"])}
    facts |= {"slower": found["slower"], "faster": found["faster"]}
    return ", ".join(f"{count} {name}" for name, count in facts.items())


def _say(started: float, text: str) -> None:
    print(f"{time.monotonic() - started:.0f} s: {text}", file=sys.stderr, flush=True)


def _command_line() -> argparse.Namespace:
    folder = ROOT / "target" / "mutants"
    parser = argparse.ArgumentParser(prog="tests.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=CASES, help=f"cases to draw ({CASES})")
    parser.add_argument("--most", type=int, default=MOST, help=f"replays for one mutant ({MOST})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"another seed draws other cases ({SEED})")
    parser.add_argument("--near", action="store_true", help="only tests of the mutated files")
    parser.add_argument("--file", help="a source or a folder below rust/core/src; without it, all in scope")
    parser.add_argument("--again", action="store_true", help="only what survived last time")
    parser.add_argument("--folder", type=Path, default=folder, help="for the mutated copy")
    parser.add_argument(
        "--results", type=Path, default=folder / "results.json", help="what is found of each mutant"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
