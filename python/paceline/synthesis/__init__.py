"""Drawn traces: named workloads of any size, the same from the same seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline._lazy import attach

if TYPE_CHECKING:
    from paceline.synthesis.arrivals import Arrivals, BenchmarkClient, Bursts, Gamma, Poisson, Regular
    from paceline.synthesis.drawing import synthesize
    from paceline.synthesis.empirical import Empirical, Sample
    from paceline.synthesis.lengths import Constant, Lengths, Lognormal, Quantiles, Uniform
    from paceline.synthesis.presets import preset, presets
    from paceline.synthesis.servegen import ServeGen, read_servegen
    from paceline.synthesis.workload import Workload

__all__ = [
    "Arrivals",
    "BenchmarkClient",
    "Bursts",
    "Constant",
    "Empirical",
    "Gamma",
    "Lengths",
    "Lognormal",
    "Poisson",
    "Quantiles",
    "Regular",
    "Sample",
    "ServeGen",
    "Uniform",
    "Workload",
    "preset",
    "presets",
    "read_servegen",
    "synthesize",
]

attach(
    __name__,
    {
        "arrivals": ("Arrivals", "BenchmarkClient", "Bursts", "Gamma", "Poisson", "Regular"),
        "drawing": ("synthesize",),
        "empirical": ("Empirical", "Sample"),
        "lengths": ("Constant", "Lengths", "Lognormal", "Quantiles", "Uniform"),
        "presets": ("preset", "presets"),
        "servegen": ("ServeGen", "read_servegen"),
        "workload": ("Workload",),
    },
)
