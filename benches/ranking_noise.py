"""Say how well a second measurement of the same configurations would order them: the ceiling of the ranking.

    python benches/ranking_noise.py accuracy.json --suite DIR [--draws 200] [--pairs]

The data have runs of one server at one load on several days. The ratio of one of them to another, of TTFT
and TPOT together, is what a repeated run differs by. Here every measured point of the ranking is multiplied
by such a ratio, drawn by a seed, and configurations are ordered by the result in place of a prediction.
Kendall's tau between that and what was measured is what a perfect prediction could reach. Printed are its
median and its fifth and ninety-fifth percentile over the draws, by model and GPU and over all, beside the tau
of the predictions in the file; and of the pairs that the predictions put in another order, how many a repeat
does in at least every twentieth draw, too. ``--pairs`` lists them.

Versions of which the data do not say the number are left out of the repeated runs, as these may be several.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paceline.validation.points.point import Point
from paceline.validation.points.predicting import Predicted
from paceline.validation.points.ranking import Pair, ranked_pairs, ranking
from paceline.validation.points.readers import read_points
from paceline.validation.points.workloads import Closed

#: How often a repeat puts a pair in another order, at least, for the pair to be within the noise.
OFTEN = 0.05
Ratio = tuple[float, float]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("accuracy", type=Path, help="what `paceline validate --suite DIR --out` wrote")
    parser.add_argument("--suite", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pairs", action="store_true", help="list the pairs in another order, too")
    given = parser.parse_args()
    predicted = replayed(json.loads(given.accuracy.read_text(encoding="utf-8")), given.suite)
    ratios = repeated([one.point for one in predicted])
    generator = np.random.default_rng(given.seed)
    taus: dict[str, list[float]] = defaultdict(list)
    turned: Counter[tuple[Any, ...]] = Counter()
    for _ in range(given.draws):
        again = [drawn(one, ratios, generator) for one in predicted]
        for name, tau in by_group(again).items():
            taus[name].append(tau)
        turned.update(key(pair) for pair in ranked_pairs(again) if not pair.agrees)
    wrong = [pair for pair in ranked_pairs(predicted) if not pair.agrees]
    often = {key(pair) for pair in wrong if turned[key(pair)] >= OFTEN * given.draws}
    print(f"{len(ratios)} ratios of repeated runs: {spread(ratios, 0)} in TTFT, {spread(ratios, 1)} in TPOT")
    print("| | Kendall's tau | of a repeat | 5% to 95% | pairs in another order | within the noise |")
    print("|---|---:|---:|---|---:|---:|")
    for name, tau in by_group(predicted).items():
        low, middle, high = np.quantile(taus[name], (0.05, 0.5, 0.95))
        mine = [pair for pair in wrong if name in ("all", pair.group)]
        within = sum(key(pair) in often for pair in mine)
        cells = f"{tau:.2f} | {middle:.2f} | {low:.2f} to {high:.2f} | {len(mine)} | {within}"
        print(f"| {name} | {cells} |")
    for pair in wrong if given.pairs else ():
        names = " against ".join(" ".join(one) for one in pair.configurations)
        values = ", ".join(f"{a:.0f} and {b:.0f}" for a, b in (pair.measured, pair.predicted))
        print(f"    {pair.group} {pair.lengths}: {names}: {values}{', noise' * (key(pair) in often)}")


def replayed(found: Mapping[str, Any], suite: Path) -> list[Predicted]:
    """Return the points of a file that are closed loops with nothing assumed, with their predictions."""
    points = {one.id: one for one in read_points(suite) if isinstance(one, Point)}
    return [
        Predicted(points[one["id"]], one["predicted"])
        for one in found["points"]
        if isinstance(points[one["id"]].workload, Closed) and not points[one["id"]].server.assumed
    ]


def repeated(points: Sequence[Point]) -> list[Ratio]:
    """Return the ratio of each run to each other one of the same server at the same load."""
    alike: dict[Any, list[Ratio]] = defaultdict(list)
    for point in points:
        if point.server.version and {"ttft", "tpot"} <= set(point.measured):
            load = (point.server, repr(point.workload), point.statistic)
            alike[load].append((point.measured["ttft"], point.measured["tpot"]))
    return [
        (after[0] / before[0], after[1] / before[1])
        for runs in alike.values()
        for before in runs
        for after in runs
        if after is not before
    ]


def drawn(one: Predicted, ratios: Sequence[Ratio], generator: np.random.Generator) -> Predicted:
    """Return a point whose prediction is a repeated run."""
    ttft, tpot = ratios[int(generator.integers(len(ratios)))]
    by = {"ttft": ttft, "tpot": tpot}
    again = {metric: value * by.get(metric, 1.0) for metric, value in one.point.measured.items()}
    cost = one.chosen()
    return Predicted(one.point, {} if cost is None else {cost: again})


def by_group(points: Sequence[Predicted]) -> dict[str, float]:
    """Return Kendall's tau by model and GPU, and over all."""
    found = ranking(points)
    return {name: one["tau"] for name, one in [*found["groups"].items(), ("all", found["overall"])]}


def key(pair: Pair) -> tuple[Any, ...]:
    """Return what a pair is known by."""
    return pair.group, pair.lengths, pair.configurations


def spread(ratios: Sequence[Ratio], at: int) -> str:
    """Return the median and the ninetieth percentile of what repeated runs differ by."""
    sizes = [100 * abs(ratio[at] - 1) for ratio in ratios]
    return f"{np.median(sizes):.1f}%, {np.quantile(sizes, 0.9):.0f}%"


if __name__ == "__main__":
    main()
