"""Calibration: fitting a roofline's efficiencies by least squares."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from paceline._arguments import typed
from paceline._check import instance_of
from paceline._core import VERSION
from paceline._least_squares import fit_bounded
from paceline.calibration.candidate import Candidate
from paceline.calibration.fit import Fit, Residual
from paceline.calibration.observation import Observation
from paceline.calibration.parameters import with_energy, with_values
from paceline.calibration.problem import Problem
from paceline.errors import ConfigError

__all__ = ["calibrate"]

# Steps of a logarithm, from coarse to fine: replays predict in small jumps, which mislead short steps.
_DIFFERENCES = (0.1, 0.05, 0.02)
_EVALUATIONS = 25
_TOLERANCE = 1e-4


@typed()
def calibrate(problem: Problem, *, report: Callable[[int, float], object] | None = None) -> Fit:
    """Fit a roofline's efficiencies to observations.

    Each residual is the logarithm of the prediction over the observation, over the tolerance; it is 0 for a
    bound that holds. Parameters move on a logarithmic scale within their bounds, from their starts, by
    SciPy's trust-region least squares, three times with finer differences. Nothing is random: the same
    problem gives the same fit.

    Parameters
    ----------
    problem
        The observations, and the parameters to fit.
    report
        Called after each evaluation with their number and half the sum of squares.

    Returns
    -------
    Fit
        The efficiencies, and each observation beside its prediction.

    Raises
    ------
    ConfigError
        If SciPy is not installed, or a prediction is not above 0.

    Examples
    --------
    >>> from paceline.calibration import Observation, Parameter, Problem, Step
    >>> problem = Problem(
    ...     model="llama-3.1-8b",
    ...     gpu="h100-sxm",
    ...     parameters=(Parameter(name="layer_s", start=1e-5, low=1e-7, high=1e-3),),
    ...     observations=(
    ...         Observation(name="one", of=Step(decodes=1, context=64), value=0.008, source="an example"),
    ...     ),
    ... )
    >>> fit = calibrate(problem)
    >>> round(fit.residuals[0].fitted, 6)
    0.008
    """
    instance_of("problem of calibrate()", problem, Problem, "a Problem, as read_observations() returns")
    asked = _Asked(problem, report)
    parameters = problem.parameters
    low, high = (np.log([getattr(of, side) for of in parameters]) for side in ("low", "high"))
    best = fit_bounded(
        asked.residuals,
        np.log([of.start for of in parameters]),
        low,
        high,
        differences=_DIFFERENCES,
        evaluations=_EVALUATIONS,
        tolerance=_TOLERANCE,
    )
    final = asked.candidate(best)
    assert final.roofline.efficiency is not None, "Invariant: candidates have efficiencies"
    return Fit(
        model=problem.model,
        gpu=problem.gpu,
        tensor_parallel=problem.tensor_parallel,
        efficiency=final.roofline.efficiency,
        coverage=final.roofline.coverage,
        energy=final.gpu.energy,
        fitted=asked.values(best),
        at_bound=tuple(
            of.name
            for of, value in zip(parameters, best, strict=True)
            if min(value - math.log(of.low), math.log(of.high) - value) < 1e-3
        ),
        residuals=tuple(_residual(of, of.of.predict(final)) for of in problem.observations),
        tool=f"paceline {VERSION}",
        observations_sha256=problem.sha256,
    )


class _Asked:
    """What least squares ask of a problem: residuals at logarithms of the parameters."""

    def __init__(self, problem: Problem, report: Callable[[int, float], object] | None) -> None:
        self._problem, self._report = problem, report
        self._efficiency, self._coverage = problem.resolved_efficiency(), problem.resolved_coverage()
        self._gpu = problem.resolved_gpu()
        self._traces: dict[Any, Any] = {}
        self._benchmarks: dict[Any, Any] = {}
        self._evaluated = 0

    def values(self, logs: Any) -> dict[str, float]:  # noqa: ANN401 - an array
        """Return the parameters of their logarithms, within the bounds, which rounding may pass."""
        return {
            of.name: min(max(math.exp(value), of.low), of.high)
            for of, value in zip(self._problem.parameters, logs, strict=True)
        }

    def candidate(self, logs: Any) -> Candidate:  # noqa: ANN401 - an array
        """Return what predicts, with these parameters."""
        problem, values = self._problem, self.values(logs)
        return Candidate(
            roofline=with_values(
                self._efficiency,
                self._coverage,
                problem.parameters,
                values,
                coverage_until=problem.coverage_until,
            ),
            model=problem.resolved_model(),
            gpu=replace(self._gpu, energy=with_energy(self._gpu.energy, problem.parameters, values)),
            tensor_parallel=problem.tensor_parallel,
            traces=self._traces,
            benchmarks=self._benchmarks,
        )

    def residuals(self, logs: Any) -> Any:  # noqa: ANN401 - arrays
        """Return the residual of each observation, and of each parameter that leans to its start."""
        made = self.candidate(logs)
        found = [_residual(of, of.of.predict(made)).pull for of in self._problem.observations]
        found += [
            (value - math.log(of.start)) / of.lean
            for of, value in zip(self._problem.parameters, logs, strict=True)
            if of.lean
        ]
        self._evaluated += 1
        if self._report is not None:
            self._report(self._evaluated, 0.5 * sum(each * each for each in found))
        return np.array(found)


def _residual(of: Observation, predicted: float) -> Residual:
    """Return an observation beside its prediction."""
    if not predicted > 0:
        raise ConfigError(f"the prediction of observation {of.name!r} must be above 0, was {predicted}")
    return Residual(
        name=of.name,
        source=of.source,
        observed=of.value,
        fitted=predicted,
        tolerance=of.tolerance,
        bound=of.bound,
    )
