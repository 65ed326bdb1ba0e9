"""The answer of a report in words: what was run, what users experienced, and which runs are the same."""

from __future__ import annotations

import tomllib
from collections import Counter
from typing import TYPE_CHECKING, Any

from paceline.report.replayed import Replayed, Run
from paceline.showing.cell import cell

if TYPE_CHECKING:
    from paceline.objectives import SLO

__all__ = ["answer", "deployment", "duration", "identical", "objectives_in_words", "step_times"]

_TITLES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E", "itl": "longest ITL"}


def duration(seconds: float | None) -> tuple[str, str]:
    """Return a duration and its unit: milliseconds below a second.

    Examples
    --------
    >>> duration(0.0342), duration(1.5), duration(None)
    (('34.20', 'ms'), ('1.500', 's'), ('–', ''))
    """
    if seconds is None:
        return cell(None), ""
    return (cell(1000 * seconds), "ms") if 0 < seconds < 1 else (cell(seconds), "s")


def objectives_in_words(slo: SLO) -> str:
    """Return the bounds of an SLO.

    Examples
    --------
    >>> from paceline import SLO
    >>> objectives_in_words(SLO(ttft=0.5, tpot=0.04))
    'TTFT ≤ 500 ms and TPOT ≤ 40 ms'
    """
    words = []
    for name, bound in slo.bounds().items():
        value, unit = (1000 * bound, "ms") if bound < 1 else (bound, "s")
        words.append(f"{_TITLES[name]} ≤ {value:g} {unit}")
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def deployment(result: Replayed) -> str:
    """Return the instances of a run: how many of which model on which GPU."""
    kinds = Counter(_kind(instance) for instance in _instances(result))
    if not kinds:
        return f"{len(result.stats.instances):,} instances"
    return ", ".join(f"{count:,} × {kind}" for kind, count in kinds.items())


def step_times(result: Replayed) -> str:
    """Return where the times of steps come from, and what is known of their error."""
    sources = dict.fromkeys(_source(instance) for instance in _instances(result))
    return "; ".join(sources) or "not known"


def answer(runs: tuple[Run, ...], slo: SLO | None) -> str:
    """Return the first sentence of a report."""
    if len(runs) == 1:
        return _of_one(runs[0].result, slo)
    if slo is not None:
        shares = {run.name: run.result.attainment(slo) for run in runs}
        best = max(shares, key=lambda name: shares[name])
        rest = ", ".join(f"{name} {share:.1%}" for name, share in shares.items() if name != best)
        return f"{best} met {objectives_in_words(slo)} for {shares[best]:.1%} of the requests; {rest}."
    tails = {run.name: _figure(run.result, "ttft", "p99") for run in runs}
    known = {name: tail for name, tail in tails.items() if tail is not None}
    if not known:
        return f"{len(runs)} replays side by side."
    best = min(known, key=lambda name: known[name])
    rest = ", ".join(f"{name} {' '.join(duration(tail))}" for name, tail in known.items() if name != best)
    return f"{best} had the shortest TTFT at P99, {' '.join(duration(known[best]))}; {rest}."


def identical(runs: tuple[Run, ...]) -> list[str]:
    """Return a sentence for each group of runs whose requests have the same moments, bit for bit."""
    groups: dict[int, list[Run]] = {}
    for run in runs:
        for first, members in groups.items():
            if _same(runs[first].result, run.result):
                members.append(run)
                break
        else:
            groups[runs.index(run)] = [run]
    return [
        f"{', '.join(run.name for run in members[:-1])} and {members[-1].name} are the same, bit for bit: "
        "under this load their policies decide alike."
        for members in groups.values()
        if len(members) > 1
    ]


def _same(one: Replayed, other: Replayed) -> bool:
    names = ("arrival", "scheduled", "first_token", "finish", "instance", "preemptions")
    return len(one) == len(other) and all(one.column(name).equals(other.column(name)) for name in names)


def _of_one(result: Replayed, slo: SLO | None) -> str:
    totals = result.totals()
    served = f"{deployment(result)} served {cell(float(totals.requests_per_s))} requests/s"
    tail = duration(_figure(result, "ttft", "p99"))
    parts = [f"TTFT was {' '.join(tail)} at P99"] if tail[1] else []
    if slo is not None:
        parts.insert(0, f"{result.attainment(slo):.1%} of the requests met {objectives_in_words(slo)}")
    return f"{served}: {'; '.join(parts)}." if parts else f"{served}."


def _figure(result: Replayed, metric: str, figure: str) -> float | None:
    for row in result.summary().iter_rows(named=True):
        if row["metric"] == metric:
            value = row[figure]
            return None if value is None else float(value)
    return None


def _instances(result: Replayed) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = tomllib.loads(result.provenance.cluster)["instances"]
    except (tomllib.TOMLDecodeError, KeyError):
        return []
    return [each for each in found for _ in range(int(each.get("count", 1)))]


def _kind(instance: dict[str, Any]) -> str:
    named = (
        of.get("name") if isinstance(of, dict) else of for of in (instance.get("model"), instance.get("gpu"))
    )
    model, gpu = named
    name = model or "instance"
    degree = int(instance.get("tensor_parallel", 1)) * int(instance.get("pipeline_parallel", 1))
    on = f" on {f'{degree} × ' if degree > 1 else ''}{gpu}" if gpu else ""
    return f"{name}{on}"


def _source(instance: dict[str, Any]) -> str:
    cost = instance.get("cost")
    if cost is None:
        return "a roofline with the catalog's efficiencies; docs/validation.md has its measured errors"
    kind = cost.get("kind") if isinstance(cost, dict) else None
    return {"affine": "coefficients that were given", "table": "measured kernels"}.get(
        str(kind), f"a cost of kind {kind}"
    )
