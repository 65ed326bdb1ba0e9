"""Calibration: a roofline's efficiencies fitted to stated observations, and kept with where they come from.

:func:`read_observations` reads the measurements, :func:`calibrate` fits to them, and a :class:`Fit` has the
efficiencies, and each observation beside the prediction of the fitted roofline. No efficiency is set by hand.
:func:`fit_host` fits an engine's front end and host time to runs of a benchmark client.
"""

from __future__ import annotations

from paceline.calibration.benchmark import Benchmark
from paceline.calibration.candidate import Candidate
from paceline.calibration.equals import with_equals
from paceline.calibration.fit import Equal, Fit, Residual, fit_names, load_fit
from paceline.calibration.fitting import calibrate
from paceline.calibration.hosts import HostFit, fit_host
from paceline.calibration.observation import Observation, Prompt, Serving, Step
from paceline.calibration.parameters import Parameter
from paceline.calibration.problem import Problem, read_observations

__all__ = [
    "Benchmark",
    "Candidate",
    "Equal",
    "Fit",
    "HostFit",
    "Observation",
    "Parameter",
    "Problem",
    "Prompt",
    "Residual",
    "Serving",
    "Step",
    "calibrate",
    "fit_host",
    "fit_names",
    "load_fit",
    "read_observations",
    "with_equals",
]
