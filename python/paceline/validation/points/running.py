"""The suite: all measured points of a folder, replayed on all cores and scored."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._cores import threads
from paceline._fork import use
from paceline._jobs import Heed, Jobs
from paceline.errors import ConfigError, PacelineError
from paceline.validation.points.point import Point, Refused
from paceline.validation.points.predicting import Predicted, predict_point
from paceline.validation.points.ranking import ranking
from paceline.validation.points.readers import Unread, read_points
from paceline.validation.points.scoring import by_cost, by_group, by_peer, chosen_errors, scores, worst
from paceline.validation.points.serving import (
    COSTS,
    Unserved,
    cluster_of,
    frontend_token_s,
    policy_of,
    profiles,
)
from paceline.validation.points.workloads import drawing

__all__ = ["SuiteResult", "suite"]

#: How many points are listed as the worst.
_WORST = 10
Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True, eq=False)
@typed_fields()
class SuiteResult:
    """What a suite found.

    Parameters
    ----------
    folder
        The folder of the data.
    points
        The points that were replayed, with their predictions.
    refused
        The points that are not modelled, with the reason.
    of
        Points that could be replayed, of which ``points`` were drawn.
    unread
        Files of no known kind.
    seed
        Of the draw, and of what the data leave open.
    """

    folder: str
    points: Sequence[Predicted]
    refused: Sequence[Refused]
    of: int
    unread: Sequence[str]
    seed: int

    def reasons(self) -> dict[str, int]:
        """Return how many points were refused for each reason, most first."""
        counted = Counter(one.reason for one in self.refused)
        return dict(sorted(counted.items(), key=lambda row: (-row[1], row[0])))

    def without_tables(self) -> dict[str, int]:
        """Return how many points were replayed with the roofline alone, by what tables lack."""
        found = Counter(
            one.refused["tables"] for one in self.points if "tables" in one.refused and one.chosen()
        )
        return dict(sorted(found.items(), key=lambda row: (-row[1], row[0])))

    def command(self, point: Point) -> str:
        """Return the command that replays one point again."""
        seed = f" --seed {self.seed}" if self.seed else ""
        return f"paceline validate --suite {shlex.quote(self.folder)} --only {shlex.quote(point.id)}{seed}"

    def to_json(self, *, each: bool = True) -> dict[str, Any]:
        """Return scores, overall and by group, what is refused, the worst points, and each point.

        Points of which something is assumed are in ``assumed`` alone, and in the list of points.

        Parameters
        ----------
        each
            Whether each point is listed, with what was measured and predicted.
        """
        scored = [one for one in self.points if not one.point.server.assumed]
        assumed = [one for one in self.points if one.point.server.assumed]
        document: dict[str, Any] = {
            "replayed": len([one for one in self.points if one.chosen()]),
            "drawn": len(self.points),
            "of": self.of,
            "seed": self.seed,
            "overall": scores(chosen_errors(scored)),
            "groups": by_group(scored),
            "costs": by_cost(scored),
            "peers": by_peer(scored),
            "ranking": ranking(scored),
            "fitted": scores(chosen_errors(one for one in scored if one.point.fitted)),
            "not_fitted": scores(chosen_errors(one for one in scored if not one.point.fitted)),
            "assumed": scores(chosen_errors(assumed)),
            "refused": self.reasons(),
            "without_tables": self.without_tables(),
            "unread": list(self.unread),
            "worst": [
                {
                    "id": one.point.id,
                    "cost": cost,
                    "metric": metric,
                    "measured": one.point.measured[metric],
                    "predicted": one.values[cost][metric],
                    "error": error,
                    "command": self.command(one.point),
                }
                for one, cost, metric, error in worst(scored, _WORST)
            ],
        }
        return {**document, "points": [_listed(one) for one in self.points]} if each else document


def _listed(one: Predicted) -> dict[str, Any]:
    return {
        "id": one.point.id,
        **one.point.groups(),
        "in_flight": one.point.in_flight,
        "fitted": one.point.fitted,
        "measured": dict(one.point.measured),
        "predicted": {cost: dict(values) for cost, values in one.values.items()},
        "refused": dict(one.refused),
        "cost": one.chosen(),
        "errors": {} if (cost := one.chosen()) is None else one.errors(cost),
    }


@typed()
def suite(
    folder: str | PathLike[str],
    *,
    points: int | None = None,
    only: str | None = None,
    hosts: bool = True,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> SuiteResult:
    """Replay all measured points of a folder, and score the predictions.

    The kind of each file is found by its columns. A point is replayed with measured kernels, where a profile
    of its GPU and engine is imported, and with the roofline. What cannot be modelled is refused by name.

    Relative errors are ``predicted / measured - 1`` of a point's mean (median where its data have no mean)
    TTFT, TPOT and E2E latency, and of its output tokens a second. A score has ``n`` points, ``median_abs``
    and ``p90_abs``, the median and ninetieth percentile of the errors' sizes, and ``bias``, the median of the
    errors with their signs. At the edge of capacity the throughput is scored alone. Scores are of the tables
    where they can be used, and of the roofline elsewhere.

    Parameters
    ----------
    folder
        The data, in any folders below.
    points
        At most so many points, drawn by the seed; None: all.
    only
        The point of this id alone.
    hosts
        Whether the host times of engines are added for the versions for which they were measured.
    seed
        Of the draw, and of what the data leave open: lengths within their range, gaps, the order of prompts.
    workers
        Replays at a time; None: one on each core.
    progress
        Called on the calling thread with the points that are done and their number.

    Raises
    ------
    ConfigError
        If the folder is none, has no point of a known kind, or none of the id.
    """
    use()
    _check.path(folder)
    _check.count("seed", seed, least=0, most=2**32 - 1)
    if points is not None:
        _check.count("points", points)
    workers = threads(workers)
    found = list(read_points(Path(folder)))
    refused = [one for one in found if isinstance(one, Refused)]
    measured = _without_repeats([one for one in found if isinstance(one, Point)], refused)
    if not measured and not refused:
        raise ConfigError(f"a suite must have a file of measured points, {folder} has none of a known kind")
    chosen = _drawn(measured, points, seed) if only is None else _named(measured, refused, only)
    of = _How(known=profiles(), seed=seed, hosts=hosts)
    predicted = _replayed(chosen, of, workers=workers, progress=progress)
    return SuiteResult(
        folder=str(folder),
        points=[one for one in predicted if one.values],
        refused=[*refused, *_unserved(predicted)],
        of=len(measured),
        unread=[one.file for one in found if isinstance(one, Unread)],
        seed=seed,
    )


def _without_repeats(points: list[Point], refused: list[Refused]) -> list[Point]:
    """Return the points that stand once in the data, and refuse those that stand there again.

    Two collections have runs of the same benchmark: these agree in their load and to six digits in TPOT. One
    of them has some runs twice, which agree to nine.
    """
    kept: dict[Any, Point] = {}
    for point in sorted(points, key=lambda one: (-len(one.measured), one.id)):
        tpot = _tpot(point)
        file = point.id.partition("#")[0]
        server = (point.server.model, point.server.gpu, point.server.engine, point.server.tensor_parallel)
        key = (server, repr(point.workload), None if tpot is None else f"{tpot:.6g}")
        first = kept.get(key)
        if first is not None and first.id.partition("#")[0] != file:
            refused.append(Refused(id=point.id, reason="the same run stands in another file"))
        elif first is not None and tpot is not None and math.isclose(_tpot(first) or 0.0, tpot):
            refused.append(Refused(id=point.id, reason="the same run stands in the file twice"))
        else:
            kept[key if first is None else point.id] = point
    wanted = set(map(id, kept.values()))
    return [point for point in points if id(point) in wanted]


def _tpot(point: Point) -> float | None:
    """Return the mean TPOT of a run, where its data have it."""
    return point.mean_tpot or point.measured.get("tpot")


def _drawn(points: list[Point], count: int | None, seed: int) -> list[Point]:
    if count is None or count >= len(points):
        return points
    chosen = drawing(seed).choice(len(points), size=count, replace=False)
    return [points[place] for place in sorted(chosen)]


def _named(points: list[Point], refused: Iterable[Refused], name: str) -> list[Point]:
    found = [point for point in points if point.id == name]
    if not found:
        reason = next((f"; it is refused: {one.reason}" for one in refused if one.id == name), "")
        raise ConfigError(f"only must be the id of a point, was {_check.said(name)}{reason}")
    return found


def _unserved(predicted: Iterable[Predicted]) -> list[Refused]:
    """Return the points that neither cost could replay, with the roofline's reason."""
    return [
        Refused(id=one.point.id, reason=one.refused.get("roofline", "no reason was given"))
        for one in predicted
        if not one.values
    ]


class _How(NamedTuple):
    """What a replay depends on besides its point: imported kernels, the seed, and whether hosts count."""

    known: Mapping[tuple[str, str], Sequence[str]]
    seed: int
    hosts: bool


def _replayed(
    points: Sequence[Point], of: _How, *, workers: int, progress: Progress | None
) -> list[Predicted]:
    """Replay points on threads, those of one server together, the servers with most points first."""
    servers: dict[Any, list[Point]] = {}
    for point in points:
        servers.setdefault(point.server, []).append(point)
    done: dict[int, Predicted] = {}

    def predict(group: Sequence[Point], heed: Heed) -> None:
        for one in _of_one_server(group, of):
            done[id(one.point)] = one
            heed(0.0)

    ordered = sorted(servers.values(), key=len, reverse=True)
    with contextlib.closing(Jobs(ordered, predict, workers=workers).ended()) as ended:
        for _ in ended:
            if progress is not None:
                progress(len(done), len(points))
    return [done[id(point)] for point in points]


def _of_one_server(group: Sequence[Point], of: _How) -> Iterable[Predicted]:
    """Yield the predictions of points that one server has served; it is built once."""
    server = group[0].server
    policy = policy_of(server)
    built: dict[Any, Any] = {}
    for cost in COSTS:
        try:
            built[cost] = cluster_of(server, cost, of.known, hosts=of.hosts)
        except Unserved as reason:
            built[cost] = str(reason)
    for point in group:
        values: dict[Any, Mapping[str, float]] = {}
        refused: dict[Any, str] = {}
        for cost, cluster in built.items():
            if isinstance(cluster, str):
                refused[cost] = cluster
                continue
            try:
                token_s = frontend_token_s(server, cost) if of.hosts else 0.0
                values[cost] = predict_point(point, cluster, policy, seed=of.seed, frontend_token_s=token_s)
            except PacelineError as error:
                refused[cost] = str(error)[:160]
        yield Predicted(point, values, refused)
