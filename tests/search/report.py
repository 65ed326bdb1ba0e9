"""The report of a search: how much was drawn, which checks fail, and their smallest cases."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from search.brief import brief
from search.case import Case
from search.counts import LOOKED_AT
from search.mechanisms import drawn
from search.process import Worker
from search.searching import Found
from search.shrink import shrink


def table(found: Found, rare: float) -> str:
    """Return a table of how much was drawn, and of rare mechanisms."""
    counts = found.counts
    failed = len({number for numbers in found.kinds.values() for number in numbers})
    lines = [
        f"seed {found.seed}: {counts.cases} cases in {found.seconds:.0f} s "
        f"({counts.cases / max(found.seconds, 1e-9):.0f}/s), {counts.refused.total()} refused, "
        f"{counts.stopped.total()} make no progress, {failed} failed"
    ]
    lines += [f"  refused {count:6}  {reason}" for reason, count in counts.refused.most_common()]
    lines += [f"  no progress {count:6}  {reason}" for reason, count in counts.stopped.most_common()]
    lines += [f"  asked {count:6}  {reason}" for reason, count in counts.asked.most_common()]
    looked_at = counts.telling[LOOKED_AT]
    for title, counter, all_of_them in (
        ("drawn", counts.drawn, counts.accepted),
        ("seen at work", counts.exercised, counts.accepted),
        ("coming out otherwise without", counts.telling, looked_at),
    ):
        lines.append(f"{title}, of {all_of_them} cases:")
        for name, count in sorted(counter.items()):
            share = count / max(all_of_them, 1)
            lines.append(f"  {'*' if share < rare else ' '} {count:7} {share:7.2%}  {name}")
    return "\n".join(lines)


def suspects(found: Found, kind: str, most: int = 6) -> str:
    """Return the mechanisms that are more frequent in the cases of a kind than in all."""
    numbers = set(found.kinds[kind])
    accepted = max(found.counts.accepted, 1)
    counts = Counter(name for number in numbers for name in drawn(found.cases[number]))
    share = {name: count / len(numbers) for name, count in counts.items()}
    usual = {name: max(found.counts.drawn[name], 1) / accepted for name in counts}
    ranked = sorted(counts, key=lambda name: share[name] * (1 - usual[name]) ** 4, reverse=True)
    return "; ".join(f"{name} ({share[name]:.0%}, of all {usual[name]:.0%})" for name in ranked[:most])


def smallest(
    found: Found, kind: str, *, most: int, seconds: float, package: Path | None = None
) -> list[tuple[int, Case]]:
    """Shrink some cases of a kind; yield those that differ in their mechanisms."""
    kept: dict[frozenset[str], tuple[int, Case]] = {}
    with Worker(package) as worker:
        for number in found.kinds[kind][:most]:

            def fails(case: Case, number: int = number) -> bool:
                failures, _ = worker.check(case, number)
                return bool(failures) and failures[0][0] == kind

            case = found.cases[number]
            if not fails(case):
                print(f"  case {found.seed}:{number} passes with more time", flush=True)
                continue
            small = shrink(case, fails, seconds)
            mark = frozenset(drawn(small))
            if mark not in kept or len(small.to_json()) < len(kept[mark][1].to_json()):
                kept[mark] = (number, small)
    return sorted(kept.values(), key=lambda one: len(one[1].to_json()))


def show(found: Found, kind: str, number: int, case: Case) -> str:
    """Return a failure, a summary of its case, and the case itself."""
    return (
        f"  case {found.seed}:{number}: {found.details[kind, number][:500]}\n"
        f"  says: {brief(case)}\n  {case.to_json().decode()}"
    )
