"""Replay LLM serving traces through schedulers, and report the latencies that users would see.

The names below are imported when they are first used, so that the command line's
help does not wait for data frames and the native engine.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # True to a type checker; to import `typing` takes longer than all the rest here
if TYPE_CHECKING:
    from paceline import policies
    from paceline._core import VERSION as __version__
    from paceline.benchmarks import BenchmarkResult, compare_bench, read_bench, write_bench
    from paceline.comparing import Comparison, compare
    from paceline.concurrency import Concurrency
    from paceline.cost import Affine, Roofline
    from paceline.deployment import Cluster, CudaGraphs, Instance, Links
    from paceline.errors import (
        ClockError,
        ConfigError,
        ForkError,
        InternalError,
        InvariantViolation,
        NoProgressError,
        PacelineError,
        PolicyError,
        ResultError,
        TraceError,
    )
    from paceline.hardware import Energy, Gpu
    from paceline.model import Model
    from paceline.objectives import SLO, Percentiles
    from paceline.patience import Patience
    from paceline.planning import Candidates, capacity, plan
    from paceline.policy import Pace, Policy, Scheduler
    from paceline.policy.expressions import cluster, inst, oracle, req, slo
    from paceline.prediction import Prediction
    from paceline.replaying import replay
    from paceline.result import Output, Result, load_result
    from paceline.runs import Recipe, Run, read_run
    from paceline.sampling import Sample
    from paceline.simulation import Simulation
    from paceline.speculation import AcceptanceLength, ByPosition, Draft, FromColumn, Listed, Speculation
    from paceline.sweeping import Grid, Sweep, read_grid, read_sweep, sweep
    from paceline.synthesis import synthesize
    from paceline.trace import Trace, TraceScan, read_trace, scan_trace

__all__ = [
    "SLO",
    "AcceptanceLength",
    "Affine",
    "BenchmarkResult",
    "ByPosition",
    "Candidates",
    "ClockError",
    "Cluster",
    "Comparison",
    "Concurrency",
    "ConfigError",
    "CudaGraphs",
    "Draft",
    "Energy",
    "ForkError",
    "FromColumn",
    "Gpu",
    "Grid",
    "Instance",
    "InternalError",
    "InvariantViolation",
    "Links",
    "Listed",
    "Model",
    "NoProgressError",
    "Output",
    "Pace",
    "PacelineError",
    "Patience",
    "Percentiles",
    "Policy",
    "PolicyError",
    "Prediction",
    "Recipe",
    "Result",
    "ResultError",
    "Roofline",
    "Run",
    "Sample",
    "Scheduler",
    "Simulation",
    "Speculation",
    "Sweep",
    "Trace",
    "TraceError",
    "TraceScan",
    "__version__",
    "capacity",
    "cluster",
    "compare",
    "compare_bench",
    "inst",
    "load_result",
    "oracle",
    "plan",
    "policies",
    "read_bench",
    "read_grid",
    "read_run",
    "read_sweep",
    "read_trace",
    "replay",
    "req",
    "scan_trace",
    "slo",
    "sweep",
    "synthesize",
    "write_bench",
]

_HOMES = {
    "benchmarks": ("BenchmarkResult", "compare_bench", "read_bench", "write_bench"),
    "comparing": ("Comparison", "compare"),
    "deployment": ("Cluster", "CudaGraphs", "Instance", "Links"),
    "cost": ("Affine", "Roofline"),
    "errors": (
        "ClockError",
        "ConfigError",
        "ForkError",
        "InternalError",
        "InvariantViolation",
        "NoProgressError",
        "PacelineError",
        "PolicyError",
        "ResultError",
        "TraceError",
    ),
    "hardware": ("Energy", "Gpu"),
    "model": ("Model",),
    "policy": ("Pace", "Policy", "Scheduler"),
    "policy.expressions": ("cluster", "inst", "oracle", "req", "slo"),
    "prediction": ("Prediction",),
    "concurrency": ("Concurrency",),
    "patience": ("Patience",),
    "replaying": ("replay",),
    "result": ("Output", "Result", "load_result"),
    "runs": ("Recipe", "Run", "read_run"),
    "sampling": ("Sample",),
    "simulation": ("Simulation",),
    "speculation": ("AcceptanceLength", "ByPosition", "Draft", "FromColumn", "Listed", "Speculation"),
    "sweeping": ("Grid", "Sweep", "read_grid", "read_sweep", "sweep"),
    "objectives": ("SLO", "Percentiles"),
    "planning": ("Candidates", "capacity", "plan"),
    "synthesis": ("synthesize",),
    "trace": ("Trace", "TraceScan", "read_trace", "scan_trace"),
}
_HOME_OF = {name: f"paceline.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "policies":
        return import_module("paceline.policies")
    if name == "__version__":
        value: object = import_module("paceline._core").VERSION
    elif name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name]), name)
    else:
        raise AttributeError(f"module 'paceline' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
