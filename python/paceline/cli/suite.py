"""`paceline validate --suite`: the measured points of a folder, replayed and scored by group."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from paceline.cli.options import Flag

if TYPE_CHECKING:
    from paceline.validation import SuiteResult

__all__ = ["NO_SUITE", "SuiteOptions", "replay_suite", "score_rows"]

SUITE = Group("Suite", sort_key=7)

_METRICS = ("ttft", "tpot", "e2e", "throughput")
_KINDS = {
    "regime": "regime",
    "load": "load",
    "layers": "layers",
    "gpu": "GPU",
    "engine": "engine",
    "model": "model",
    "precision": "weights",
    "parallel": "split",
    "data": "data",
}


@Parameter(name="*", group=SUITE)
@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOptions:
    """A folder of measured points of many kinds, and which of them to replay.

    Parameters
    ----------
    suite
        The folder, in place of FOLDER: files of points and of runs, in any folders below, are found by their
        columns. Scores are printed by group; what cannot be modelled is refused by name and counted.
    points
        Replay at most so many of them, drawn by the seed.
    only
        Replay the point of this id alone, and print what was measured and predicted.
    no_hosts
        Leave out the host times of engines, which are otherwise added for the versions that they were
        measured on.
    seed
        Of the draw, and of what the data leave open, such as the lengths of requests.
    workers
        Replays at a time; by default one on each core.
    out
        Write the JSON object to a file, with each point, besides what is printed.
    """

    suite: Path | None = None
    points: int | None = None
    only: str | None = None
    no_hosts: Flag = False
    seed: int = 0
    workers: int | None = None
    out: Annotated[Path | None, Parameter(name="--out")] = None


NO_SUITE = SuiteOptions()


def replay_suite(options: SuiteOptions, *, json: bool) -> None:
    """Replay the points of a folder, print their scores, and write them if a file is named."""
    from paceline._atomic import new_file
    from paceline.cli.output import print_json
    from paceline.cli.progress import TaskBar
    from paceline.validation import suite

    assert options.suite is not None, "Invariant: called with a folder"
    with TaskBar(quiet=json) as bar:
        found = suite(
            options.suite,
            points=options.points,
            only=options.only,
            hosts=not options.no_hosts,
            seed=options.seed,
            workers=options.workers,
            progress=lambda done, total: bar.show(f"replayed {done:,} of {total:,} points", done, total),
        )
    if options.out is not None:
        with new_file(options.out) as draft:
            draft.write_text(jsonlib.dumps(found.to_json(), indent=1), encoding="utf-8")
    if json:
        print_json(found.to_json())
    elif options.only is not None:
        _print_one(found)
    else:
        _print(found)


def score_rows(name: str, scored: Mapping[str, Any]) -> list[str]:
    """Return a row: points, then the median and ninetieth percentile of errors' sizes and their bias."""
    cells = [name, f"{max((of['n'] for of in scored.values()), default=0):,}"]
    for metric in _METRICS:
        of = scored.get(metric)
        cells.append("" if of is None else f"{of['median_abs']:.1%}")
        cells.append("" if of is None else f"{of['p90_abs']:.1%}")
        cells.append("" if of is None else f"{of['bias']:+.1%}")
    return cells


def _print(found: SuiteResult) -> None:
    """Print scores overall, by cost, by group and beside other predictors, refusals, and the worst points."""
    from rich.text import Text

    from paceline.cli.output import console, table

    document, screen = found.to_json(each=False), console()
    heads = ["", "points"] + [
        f"{m.upper() if m != 'throughput' else 'tokens/s'} {of}"
        for m in _METRICS
        for of in ("median", "p90", "bias")
    ]
    rows = [score_rows("all", document["overall"])]
    rows += [score_rows(f"{cost}", of) for cost, of in document["costs"]["all"].items()]
    rows += [score_rows(f"{cost}, where both can", of) for cost, of in document["costs"]["both"].items()]
    rows += [score_rows("nothing fitted on them", document["not_fitted"])]
    for kind, title in _KINDS.items():
        rows += [score_rows(f"{title}: {name}", of) for name, of in document["groups"].get(kind, {}).items()]
    for name, of in document["peers"].items():
        rows += [score_rows(f"{name}", of["peer"]), score_rows(f"ours, where {name} has one", of["ours"])]
    screen.print(table(heads, rows))
    screen.print(
        Text(
            f"\n{document['replayed']:,} of {document['of']:,} points replayed; sizes of relative errors, "
            f"and the median error"
        )
    )
    _print_counts("not modelled", document["refused"])
    _print_counts("by the roofline alone", document["without_tables"])
    screen.print(Text("\nworst"))
    for one in document["worst"]:
        screen.print(Text(f"{one['metric']} {one['error']:+.0%} ({one['cost']})  {one['command']}"))


def _print_counts(title: str, counts: Mapping[str, int]) -> None:
    from rich.text import Text

    from paceline.cli.output import console

    if counts:
        console().print(Text(f"\n{title}: {sum(counts.values()):,} points"))
    for reason, count in counts.items():
        console().print(Text(f"{count:>6,}  {reason}"))


def _print_one(found: SuiteResult) -> None:
    """Print what was measured of a point, and what each cost predicts."""
    from rich.text import Text

    from paceline.cli.output import console, table

    for one in found.points:
        console().print(Text(f"{one.point.id}: {', '.join(one.point.groups().values())}"))
        rows: list[Sequence[str]] = []
        for metric, measured in one.point.measured.items():
            cells = [metric, f"{measured:,.4g}"]
            for cost in ("tables", "roofline"):
                value = one.values.get(cost, {}).get(metric)
                cells.append("" if value is None else f"{value:,.4g} ({value / measured - 1:+.1%})")
            rows.append(cells)
        console().print(table(["s, tokens/s", "measured", "tables", "roofline"], rows))
        for cost, reason in one.refused.items():
            console().print(Text(f"{cost}: {reason}"))
    _print_counts("not replayed", found.reasons() if not found.points else {})
