"""An engine's time on the host, fitted to runs of a benchmark client.

A run is replayed as :func:`paceline.compare_bench` does, with the kernels of its server, and with a front end
and a time of each step, ``a + b * running``, that make its TTFT and TPOT as measured. Every other request is
held out of the fit. How many requests run changes over a run, and more so over several, which is all that
tells ``a`` from ``b``: so the fit is repeated without each of the constants, and those that meet the
observations as well are its spread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._least_squares import Floats, fit_bounded
from paceline.benchmarks.clients import Replayed, replayed
from paceline.benchmarks.reading import read_benches
from paceline.deployment import Cluster
from paceline.errors import ConfigError
from paceline.hosts import EngineHost
from paceline.policy import Policy
from paceline.replaying import replay

__all__ = ["CONSTANTS", "HostFit", "fit_host"]

#: What is fitted, by the names of an EngineHost.
CONSTANTS: Final = ("frontend_s", "step_s", "request_s")
#: The seconds of each that are 1 in the fit, how many of them are the most, and those that are tried as
#: starts. Means of TTFT and TPOT are nearly straight lines in the seconds, with jumps where requests join
#: other steps. In logarithms a constant near 0 has no slope, and a fit ends there.
_UNIT, _MOST = np.array([0.01, 0.0005, 0.00002]), np.array([100.0, 200.0, 500.0])
_TRIED: Final = ((0.0, 0.5, 2.0, 6.0), (0.0, 1.0, 3.0), (0.0, 1.0, 4.0))
#: Of those, so many are fitted from, unless one fit is this close.
_STARTS: Final = 3
_EXACT: Final = 1e-4
#: Parts of a run, by when requests were sent, whose means are compared.
_PARTS: Final = 8
_LEAST: Final = 4
#: A fit is as good as another if its root mean square is at most this much more.
_EQUAL: Final = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class HostFit:
    """A host that was fitted to runs.

    Parameters
    ----------
    host
        The constants, with what they were fitted to and their spread in words.
    off
        Root mean square of the logarithms of predicted over measured, on the requests of the fit.
    held
        The ``median`` and ``p90`` of the sizes of relative errors, of the mean TTFT and TPOT of parts of the
        requests that were held out, with the host.
    without
        The same without it.
    equals
        The constants of each fit that meets the observations as well, that of ``host`` first.
    """

    host: EngineHost
    off: float
    held: Mapping[str, float]
    without: Mapping[str, float]
    equals: Sequence[Mapping[str, float]]

    def spread(self) -> dict[str, tuple[float, float]]:
        """Return the least and the largest value of each constant over fits of equal cost."""
        return {
            name: (min(one[name] for one in self.equals), max(one[name] for one in self.equals))
            for name in CONSTANTS
        }


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """Runs, and what serves them."""

    loads: Sequence[Replayed]
    cluster: Cluster
    policy: Policy
    host: EngineHost

    def off(self, constants: Mapping[str, float], *, held: bool) -> Floats:
        """Return the logarithms of predicted over measured means, of TTFT and TPOT by part of each run."""
        host = _with(self.host, constants)
        found = []
        for load in self.loads:
            result = replay(load.trace, self.cluster, self.policy, clients=load.clients, host=host)
            columns = result._columns
            unfinished = len(columns) - int(columns.happened("finish").sum())
            if unfinished:
                raise ConfigError(
                    f"{load.trace.name}: the instance must serve every request, "
                    f"{unfinished} were not finished"
                )
            for metric in ("ttft", "tpot"):
                predicted = columns.seconds(metric)[int(held) :: 2]
                measured = columns.seconds(f"measured_{metric}")[int(held) :: 2]
                size = max(_LEAST, -(-len(predicted) // _PARTS))
                found += [
                    _log_ratio(predicted[start : start + size], measured[start : start + size])
                    for start in range(0, len(predicted), size)
                ]
        return np.array([value for value in found if np.isfinite(value)])


def _with(host: EngineHost, constants: Mapping[str, float]) -> EngineHost:
    front, step, request = (constants[name] for name in CONSTANTS)
    return replace(host, frontend_s=front, step_s=step, request_s=request)


def _log_ratio(predicted: Floats, measured: Floats) -> float:
    """Return the logarithm of the ratio of sums, over the requests that have both; nan is none."""
    both = ~(np.isnan(predicted) | np.isnan(measured))
    ours, theirs = (float(times[both].sum()) for times in (predicted, measured))
    return float(np.log(ours / theirs)) if ours > 0 and theirs > 0 else float("nan")


@typed()
def fit_host(
    files: Sequence[str | PathLike[str]],
    cluster: Cluster,
    policy: Policy,
    *,
    name: str,
    flags: str = "",
    report: Callable[[int, float], object] | None = None,
) -> HostFit:
    """Fit a front end and the time of a step beyond its kernels to runs of a benchmark client.

    Parameters
    ----------
    files
        Results with each request, such as those of ``vllm bench serve --save-result --save-detailed``.
    cluster, policy
        What served them, without a front end; the cost of its steps is that of the kernels.
    name
        The engine and its version: ``"vllm-0.23.0"``.
    flags
        The server's flags, to keep with the constants.
    report
        Called after each fit with how many are done, and its root mean square.

    Returns
    -------
    HostFit
        The constants. ``fit.host.write(path)`` makes a file that ``replay(host=path)`` takes.

    Raises
    ------
    ConfigError
        If a run lacks requests with TTFT and TPOT, the cluster does not serve one, or SciPy is not installed.
    """
    if not files:
        raise ConfigError("files must be one result of a benchmark client, or more, were none")
    if cluster.frontend_s:
        raise ConfigError(
            f"frontend_s of the Cluster must be 0 as it is fitted, was {_check.said(cluster.frontend_s)}"
        )
    measured = [one for file in files for one in read_benches(Path(file))]
    loads = [replayed(one) for one in measured]
    for load in loads:
        lacks = [of for of in ("measured_ttft", "measured_tpot") if load.trace.frame[of].is_null().all()]
        if lacks or len(load.trace) < 2 * _LEAST:
            raise ConfigError(
                f"{load.trace.name} must have {2 * _LEAST} requests or more with TTFT and TPOT, has "
                f"{len(load.trace)}{', and no ' + lacks[0] if lacks else ''}"
            )
    runs = _Runs(loads, cluster, policy, EngineHost.named(name))
    fits = _fits(runs, report)
    least = min(off for off, _ in fits)
    equals = [constants for off, constants in sorted(fits, key=_cost) if off <= least + _EQUAL]
    held, without = (_errors(runs.off(one, held=True)) for one in (equals[0], dict.fromkeys(CONSTANTS, 0.0)))
    found = HostFit(host=runs.host, off=least, held=held, without=without, equals=equals)
    requests = sum(len(load.trace) for load in loads)
    source = f"fitted to half of {requests:,} requests of {', '.join(one.name for one in measured)}"
    host = replace(_with(runs.host, equals[0]), flags=flags, source=source, spread=_in_words(found))
    return replace(found, host=host)


def _fits(
    runs: _Runs, report: Callable[[int, float], object] | None
) -> list[tuple[float, Mapping[str, float]]]:
    """Return the root mean square and the constants of the fit of all, and of those without each of them."""
    tried = sorted((_size(runs, np.array(units)), units) for units in product(*_TRIED))
    fits: list[tuple[float, Mapping[str, float]]] = []
    for done, without in enumerate((None, *range(len(CONSTANTS))), start=1):
        free = [at for at in range(len(CONSTANTS)) if at != without]
        starts = [np.array(units) for _, units in tried if without is None or units[without] == 0.0]
        off, found = _fit(runs, starts[0], free)
        for start in starts[1:_STARTS] if without is None else ():
            if off > _EXACT:
                off, found = min((off, found), _fit(runs, start, free), key=_cost)
        fits.append((off, found))
        if report is not None:
            report(done, off)
    return fits


def _fit(runs: _Runs, start: Floats, free: Sequence[int]) -> tuple[float, Mapping[str, float]]:
    """Return the root mean square and the constants of one fit, of which those that are not free stay."""

    def whole(units: Floats) -> Floats:
        all_units = np.array(start)
        all_units[free] = units
        return all_units

    found = whole(
        fit_bounded(
            lambda units: runs.off(_seconds(whole(units)), held=False),
            start[free],
            np.zeros(len(free)),
            _MOST[free],
            differences=(0.3, 0.05),
            evaluations=12,
            tolerance=1e-6,
        )
    )
    return _size(runs, found), _seconds(found)


def _seconds(units: Floats) -> dict[str, float]:
    """Return the constants, to a nanosecond: no run is known better."""
    return {name: float(np.round(one, 9)) for name, one in zip(CONSTANTS, units * _UNIT, strict=True)}


def _size(runs: _Runs, units: Floats) -> float:
    """Return the root mean square of constants, on the requests of the fit."""
    return float(np.sqrt(np.mean(runs.off(_seconds(units), held=False) ** 2)))


def _cost(fit: tuple[float, Mapping[str, float]]) -> float:
    return fit[0]


def _errors(off: Floats) -> dict[str, float]:
    """Return the median sizes of relative errors over both metrics."""
    sizes = np.abs(np.expm1(off))
    return {"median": float(np.median(sizes)), "p90": float(np.quantile(sizes, 0.9))}


def _in_words(fit: HostFit) -> str:
    units = (("frontend_s", 1e3, "ms"), ("step_s", 1e3, "ms a step"), ("request_s", 1e6, "us a request"))
    spread = fit.spread()
    ranges = [f"{spread[of][0] * k:.3g} to {spread[of][1] * k:.3g} {unit}" for of, k, unit in units]
    return (
        f"{len(fit.equals)} of 4 fits of equal cost: {'; '.join(ranges)}. Held out: half of the requests, of "
        f"which the median error of mean TTFT and TPOT is {fit.held['median']:.1%}, and "
        f"{fit.without['median']:.1%} without the host"
    )
