"""Drawn traces: named workloads of any size, the same from the same seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline._lazy import attach

if TYPE_CHECKING:
    from paceline.synthesis.arrivals import Arrivals, BenchmarkClient, Bursts, Gamma, Poisson, Regular
    from paceline.synthesis.benchmark_ramp import BenchmarkRamp
    from paceline.synthesis.cycles import Diurnal, OnOff
    from paceline.synthesis.drawing import synthesize, synthesize_parts
    from paceline.synthesis.durations import (
        Durations,
        ExponentialTime,
        FixedTime,
        LognormalTime,
        QuantileTime,
    )
    from paceline.synthesis.empirical import Empirical, Sample
    from paceline.synthesis.lengths import Constant, Lengths, Lognormal, Quantiles, Uniform
    from paceline.synthesis.log_quantiles import LogQuantiles
    from paceline.synthesis.populations import SharedPrompts, Tenants
    from paceline.synthesis.presets import preset, presets
    from paceline.synthesis.rates import Ramp, Steps
    from paceline.synthesis.reuse import ideal_hit_rate
    from paceline.synthesis.servegen import ServeGen, read_servegen
    from paceline.synthesis.sessions import ContextLimit, Sessions, Subagents, ToolLoop, TurnTokens
    from paceline.synthesis.workload import Workload

__all__ = [
    "Arrivals",
    "BenchmarkClient",
    "BenchmarkRamp",
    "Bursts",
    "Constant",
    "ContextLimit",
    "Diurnal",
    "Durations",
    "Empirical",
    "ExponentialTime",
    "FixedTime",
    "Gamma",
    "Lengths",
    "LogQuantiles",
    "Lognormal",
    "LognormalTime",
    "OnOff",
    "Poisson",
    "QuantileTime",
    "Quantiles",
    "Ramp",
    "Regular",
    "Sample",
    "ServeGen",
    "Sessions",
    "SharedPrompts",
    "Steps",
    "Subagents",
    "Tenants",
    "ToolLoop",
    "TurnTokens",
    "Uniform",
    "Workload",
    "ideal_hit_rate",
    "preset",
    "presets",
    "read_servegen",
    "synthesize",
    "synthesize_parts",
]

attach(
    __name__,
    {
        "arrivals": ("Arrivals", "BenchmarkClient", "Bursts", "Gamma", "Poisson", "Regular"),
        "benchmark_ramp": ("BenchmarkRamp",),
        "cycles": ("Diurnal", "OnOff"),
        "drawing": ("synthesize", "synthesize_parts"),
        "durations": ("Durations", "ExponentialTime", "FixedTime", "LognormalTime", "QuantileTime"),
        "empirical": ("Empirical", "Sample"),
        "lengths": ("Constant", "Lengths", "Lognormal", "Quantiles", "Uniform"),
        "log_quantiles": ("LogQuantiles",),
        "populations": ("SharedPrompts", "Tenants"),
        "presets": ("preset", "presets"),
        "rates": ("Ramp", "Steps"),
        "reuse": ("ideal_hit_rate",),
        "servegen": ("ServeGen", "read_servegen"),
        "sessions": ("ContextLimit", "Sessions", "Subagents", "ToolLoop", "TurnTokens"),
        "workload": ("Workload",),
    },
)
