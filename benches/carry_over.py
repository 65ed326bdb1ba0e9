"""Say how well constants that were fitted to measured points carry over to other configurations.

    python benches/carry_over.py --suite DIR [--only NAME] [--each]

A configuration is a GPU, a model, and an engine's version. Configurations are divided in two by a hash of
their names, so that no point of one that is scored was seen by the fit. Each constant is fitted again on
either half, with the other constants as they ship, and scored on the other: a fit is the value, among shares
of the shipped one, with the least mean over configurations of their median error, so that a configuration of
many points counts as one of few. The last column leaves out one configuration at a time: of how many the
error falls by a constant that was fitted to all others. A constant of one configuration cannot be tested.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import numpy as np

from paceline.errors import PacelineError
from paceline.hosts import EngineHost, host_names
from paceline.validation.points import Point, serving
from paceline.validation.points.predicting import predict_point
from paceline.validation.points.readers import read_points
from paceline.validation.points.serving import Unserved, cluster_of, host_of, policy_of, profiles

#: What is tried, as shares of the shipped value; 0 is a host without the constant.
SHARES = (0.0, 0.5, 0.75, 1.0, 1.25, 1.5)
#: The constants of a host, and the metric that each was fitted to.
FIELDS: Mapping[str, Literal["ttft", "tpot"]] = {
    "frontend_s": "ttft",
    "frontend_token_s": "ttft",
    "latent_layer_s": "ttft",
    "step_s": "tpot",
    "request_s": "tpot",
}
#: The time of a token in Marlin's experts, which belongs to no host.
MARLIN = "_MARLIN_TOKEN_S"
#: The points of a configuration that are replayed at most, drawn by a hash of their names.
MOST = 12
#: A larger error counts as one of this size, so that no configuration decides alone.
LARGEST = 1.0

Errors = Mapping[float, float]


@dataclass(frozen=True)
class Constant:
    """A constant of a host, or of kernels that are not measured."""

    host: str
    field: str

    @property
    def metric(self) -> Literal["ttft", "tpot"]:
        """What it was fitted to."""
        return FIELDS.get(self.field, "ttft")

    @property
    def shipped(self) -> float:
        """Its value."""
        return float(getattr(EngineHost.load(self.host) if self.host else serving, self.field))

    def at(self, share: float) -> AbstractContextManager[Any]:
        """Put a share of a constant of kernels in its place; those of hosts are put into the host."""
        return nullcontext() if self.host else patch.object(serving, self.field, share * self.shipped)

    def on(self, host: EngineHost | None, share: float) -> EngineHost | None:
        """Return a host with a share of the constant."""
        if host is None or not self.host:
            return host
        return replace(host, **{self.field: share * getattr(host, self.field)})

    def concerns(self, point: Point) -> bool:
        """Whether a point has the constant: launches are those of latent attention, without graphs."""
        if not self.host:
            return serving.marlin_token_s(point.server) > 0
        host = host_of(point.server, "tables")
        if host is None or host.name != self.host or not getattr(host, self.field):
            return False
        return self.field != "latent_layer_s" or point.server.model.latent is not None


def configuration(point: Point) -> str:
    """Return the GPU, the model and the engine's version."""
    server = point.server
    return f"{server.gpu} {server.model.name} {server.engine} {server.version or '?'}"


def half(name: str) -> int:
    """Return the half of a configuration, 0 or 1, by a hash of its name."""
    return digest(name)[0] & 1


def digest(name: str) -> bytes:
    """Return the hash of a name."""
    return hashlib.sha256(name.encode()).digest()


def measured(folder: Path) -> list[Point]:
    """Return the points that a host's times are added to, with nothing assumed."""
    return [
        one
        for one in read_points(folder)
        if isinstance(one, Point) and not one.server.assumed and not one.edge and not one.server.prefill
    ]


def errors(constant: Constant, points: Sequence[Point], known: Mapping[Any, Any]) -> Errors:
    """Return the median error of a configuration's points by the share of the constant."""
    found: dict[float, float] = {}
    for share in SHARES:
        with constant.at(share):
            sizes = [of for point in points if (of := _error(constant, point, share, known)) is not None]
        if sizes:
            found[share] = float(np.median(sizes))
    return found


def _error(constant: Constant, point: Point, share: float, known: Mapping[Any, Any]) -> float | None:
    """Return the size of a point's error; None if the tables cannot replay it."""
    host = constant.on(host_of(point.server, "tables"), share)
    try:
        plain = cluster_of(point.server, "tables", known, hosts=False)
        cluster = plain if host is None else host.on(plain)
        token_s = 0.0 if host is None else host.frontend_token_s
        values = predict_point(point, cluster, policy_of(point.server), frontend_token_s=token_s)
    except (Unserved, PacelineError):
        return None
    return min(LARGEST, abs(values[constant.metric] / point.measured[constant.metric] - 1))


def mean(of: Iterable[Errors], share: float) -> float:
    """Return the mean over configurations of the error with a share."""
    return float(np.mean([one[share] for one in of]))


def fit(of: Sequence[Errors]) -> float:
    """Return the share with the least mean error; the smallest of equal ones."""
    return min(SHARES, key=lambda share: (round(mean(of, share), 6), share))


def carried(constant: Constant, by_name: Mapping[str, Errors]) -> str:
    """Return a row of the table."""
    halves = [[of for name, of in by_name.items() if half(name) == side] for side in (0, 1)]
    name = f"`{constant.host}` {constant.field}" if constant.host else "a token in Marlin's experts"
    cells = [name, written(constant, 1.0)]
    cells.append(f"{len(halves[0])} + {len(halves[1])}")
    if all(halves):
        fits = [fit(one) for one in halves]
        cells.append(" and ".join(written(constant, share) for share in fits))
        for one, share in zip(halves, fits[::-1], strict=True):
            own = mean(one, fit(one))
            cells.append(f"{percent(mean(one, 0.0))} to {percent(mean(one, share))} ({percent(own)})")
    else:
        cells += ["", "", ""]
    if len(by_name) > 1:
        better = [
            of[fit([other for there, other in by_name.items() if there != name])] < of[0.0]
            for name, of in by_name.items()
        ]
        cells.append(f"{sum(better)} of {len(better)}")
    else:
        cells.append("")
    return f"| {' | '.join(cells)} |"


def written(constant: Constant, share: float) -> str:
    """Return a value in its unit."""
    value = share * constant.shipped
    return f"{1e3 * value:.3g} ms" if constant.shipped >= 1e-4 else f"{1e6 * value:.3g} µs"


def percent(error: float) -> str:
    """Return an error in per cent."""
    return f"{100 * error:.1f}"


def groups(points: Iterable[Point], constant: Constant) -> dict[str, list[Point]]:
    """Return the points of each configuration that has the constant, at most so many."""
    found: dict[str, list[Point]] = {}
    for point in points:
        if constant.metric in point.measured and constant.concerns(point):
            found.setdefault(configuration(point), []).append(point)
    return {name: sorted(of, key=lambda one: digest(one.id))[:MOST] for name, of in sorted(found.items())}


def main() -> None:
    """Fit each constant on either half, and print how it does on the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", type=Path, required=True)
    parser.add_argument("--only", help="the host of this name alone")
    parser.add_argument("--each", action="store_true", help="print each configuration's errors, too")
    given = parser.parse_args()
    known, points = profiles(), measured(given.suite)
    names = host_names() if given.only is None else [given.only]
    constants = [Constant(name, field) for name in names for field in FIELDS]
    constants += [Constant("", MARLIN)] if given.only is None else []
    print("| constant | shipped | configurations | fitted on halves | first | second | better without one |")
    print("|---|---:|---:|---|---|---|---:|")
    for constant in constants:
        if not constant.shipped:
            continue
        mine = groups(points, constant)
        # A constant of kernels is put in its place for all threads.
        with ThreadPoolExecutor(2 if constant.host else 1) as pool:
            each = pool.map(partial(errors, constant, known=known), mine.values())
            found = {name: of for name, of in zip(mine, each, strict=True) if of}
        print(carried(constant, found), flush=True)
        for name, of in found.items() if given.each else ():
            sizes = {share: round(100 * size, 1) for share, size in of.items()}
            print(f"    {half(name)} {name}: {sizes}", flush=True)


if __name__ == "__main__":
    main()
