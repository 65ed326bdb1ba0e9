"""Calibration: a roofline's efficiencies fitted to stated observations, and kept with where they come from.

:func:`read_observations` reads what was measured, :func:`calibrate` fits, and a :class:`Fit` is what came of
it: the efficiencies, and each observation beside what the fitted roofline says. No efficiency is turned by
hand.
"""

from __future__ import annotations

from paceline.calibration.candidate import Candidate
from paceline.calibration.equals import with_equals
from paceline.calibration.fit import Equal, Fit, Residual, fit_names, load_fit
from paceline.calibration.fitting import calibrate
from paceline.calibration.observation import Observation, Prompt, Serving, Step
from paceline.calibration.parameters import Parameter
from paceline.calibration.problem import Problem, read_observations

__all__ = [
    "Candidate",
    "Equal",
    "Fit",
    "Observation",
    "Parameter",
    "Problem",
    "Prompt",
    "Residual",
    "Serving",
    "Step",
    "calibrate",
    "fit_names",
    "load_fit",
    "read_observations",
    "with_equals",
]
