"""Scores of predictions: sizes of relative errors, and their direction, by group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

import numpy as np

from paceline._arguments import typed
from paceline.validation.points.point import METRICS
from paceline.validation.points.predicting import Predicted
from paceline.validation.points.serving import COSTS, Cost

__all__ = ["Score", "by_cost", "by_group", "by_peer", "score", "scores", "worst"]


class Score(TypedDict):
    """The errors of a metric over points.

    Attributes
    ----------
    n
        Points that have the metric.
    median_abs
        The median of the errors' sizes: half of the predictions are off by less.
    p90_abs
        The ninetieth percentile of the errors' sizes.
    bias
        The median of the errors with their signs: above 0 if most predictions are too high.
    """

    n: int
    median_abs: float
    p90_abs: float
    bias: float


@typed()
def score(errors: Sequence[float]) -> Score:
    """Return the score of relative errors; percentiles are between ranks by straight lines.

    Examples
    --------
    >>> score([0.10, -0.20, 0.05])
    {'n': 3, 'median_abs': 0.1, 'p90_abs': 0.18, 'bias': 0.05}
    """
    values = np.asarray(errors, dtype=np.float64)
    if not len(values):
        return {"n": 0, "median_abs": float("nan"), "p90_abs": float("nan"), "bias": float("nan")}
    sizes = np.abs(values)
    return {
        "n": len(values),
        "median_abs": round(float(np.median(sizes)), 6),
        "p90_abs": round(float(np.quantile(sizes, 0.9)), 6),
        "bias": round(float(np.median(values)), 6),
    }


def scores(errors: Iterable[Mapping[str, float]]) -> dict[str, Score]:
    """Return the score of each metric that some point has."""
    rows = list(errors)
    return {
        metric: score([row[metric] for row in rows if metric in row])
        for metric in METRICS
        if any(metric in row for row in rows)
    }


def chosen_errors(points: Iterable[Predicted]) -> list[Mapping[str, float]]:
    """Return the errors of each point's scored cost."""
    return [point.errors(cost) for point in points if (cost := point.chosen()) is not None]


def by_group(points: Sequence[Predicted]) -> dict[str, dict[str, dict[str, Score]]]:
    """Return the scores of each group of each kind."""
    kinds: dict[str, dict[str, list[Predicted]]] = {}
    for point in points:
        if point.chosen() is None:
            continue
        for kind, group in point.point.groups().items():
            kinds.setdefault(kind, {}).setdefault(group, []).append(point)
    return {
        kind: {group: scores(chosen_errors(groups[group])) for group in sorted(groups)}
        for kind, groups in kinds.items()
    }


def by_cost(points: Sequence[Predicted]) -> dict[str, dict[str, dict[str, Score]]]:
    """Return the scores of each cost: over all its points, and over those that both costs can replay."""
    both = [point for point in points if all(cost in point.values for cost in COSTS)]
    return {
        "all": {cost: scores(point.errors(cost) for point in points) for cost in COSTS},
        "both": {cost: scores(point.errors(cost) for point in both) for cost in COSTS},
    }


def by_peer(points: Sequence[Predicted]) -> dict[str, dict[str, dict[str, Score]]]:
    """Return the scores of each other predictor, and ours on the same points and metrics."""
    found: dict[str, list[tuple[Mapping[str, float], Mapping[str, float]]]] = {}
    for point in points:
        cost = point.chosen()
        if cost is None:
            continue
        ours = point.errors(cost)
        for name, told in point.point.peers.items():
            theirs = {m: told[m] / point.point.measured[m] - 1 for m in ours if m in told}
            found.setdefault(name, []).append((theirs, {m: ours[m] for m in theirs}))
    return {
        name: {"peer": scores(theirs for theirs, _ in pairs), "ours": scores(ours for _, ours in pairs)}
        for name, pairs in sorted(found.items())
    }


def worst(points: Sequence[Predicted], count: int) -> list[tuple[Predicted, Cost, str, float]]:
    """Return the points with the largest errors: their cost, the metric and its error.

    Errors are compared as ratios, so that half is as far off as twice.
    """
    found = []
    for point in points:
        cost = point.chosen()
        errors = {} if cost is None else point.errors(cost)
        if cost is None or not errors:
            continue
        metric = max(errors, key=lambda name: abs(np.log1p(max(errors[name], -0.999))))
        found.append((point, cost, metric, errors[metric]))
    return sorted(found, key=lambda row: (-abs(np.log1p(max(row[3], -0.999))), row[0].point.id))[:count]
