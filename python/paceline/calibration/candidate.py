"""A roofline with the numbers of one step of a fit, and its predictions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from paceline import _check, _native
from paceline._arguments import typed, typed_fields
from paceline._clock import TICKS_PER_SECOND
from paceline.calibration.kernels import step_seconds
from paceline.cost import Roofline
from paceline.deployment import Instance
from paceline.errors import ConfigError
from paceline.policies.layered_prefill import authors_chunked
from paceline.result.traffic import TrafficStats, energy_j
from paceline.synthesis import Arrivals, BenchmarkClient, synthesize

if TYPE_CHECKING:
    from paceline.hardware import Gpu
    from paceline.model import Model
    from paceline.trace import Trace

__all__ = ["ARRIVALS", "METRICS", "Candidate"]

METRICS = ("ttft_mean", "ttft_p99", "tbt_mean", "tbt_p99", "expert_bytes_per_request", "energy_per_token")
"""The metrics of a replay: seconds, bytes, and joules for each token of prompt or output."""

ARRIVALS: Mapping[str, Arrivals | None] = {"workload": None, "benchmark-client": BenchmarkClient()}
"""The arrival processes of observations, by name; None: the workload's own."""


@dataclass(slots=True, kw_only=True, eq=False)
@typed_fields()
class Candidate:
    """A roofline for a model on GPUs.

    Parameters
    ----------
    roofline
        The cost model.
    model, gpu, tensor_parallel
        What runs on what.
    traces
        Traces drawn so far, by how: shared between candidates, since they are the same.
    benchmarks
        Requests of benchmarks read so far, by file and run: shared likewise. What this candidate predicts for
        them is in ``replayed``.
    """

    roofline: Roofline
    model: Model
    gpu: Gpu
    tensor_parallel: int
    traces: dict[tuple[str, float, int, int, str], Trace] = field(default_factory=dict)
    benchmarks: dict[Any, Any] = field(default_factory=dict)
    replayed: dict[Any, Any] = field(default_factory=dict, init=False)
    _wire: dict[str, Any] | None = field(default=None, init=False)
    _served: dict[tuple[Any, ...], dict[str, float]] = field(default_factory=dict, init=False)

    @typed()
    def kernels(self, **work: int) -> dict[str, float]:
        """Return a step's time by kernel: see `step_seconds`."""
        return step_seconds(self._instance_wire()["cost"], **work)

    @typed()
    def served(
        self, *, workload: str, rate: float, chunk: int, requests: int, seeds: int, arrivals: str = "workload"
    ) -> dict[str, float]:
        """Return `METRICS` of chunked prefill on a drawn workload: of each, the median over the seeds."""
        _check.count("seeds of a Candidate", seeds, most=10_000)
        if arrivals not in ARRIVALS:
            raise ConfigError(
                f"arrivals of a Candidate must be one of {', '.join(ARRIVALS)}, was {arrivals!r}"
            )
        key = (workload, rate, chunk, requests, seeds, arrivals)
        if key not in self._served:
            rows = [self._replay(workload, rate, chunk, requests, seed, arrivals) for seed in range(seeds)]
            medians = np.median(np.array(rows), axis=0)
            self._served[key] = dict(zip(METRICS, map(float, medians), strict=True))
        return self._served[key]

    def _instance_wire(self) -> dict[str, Any]:
        if self._wire is None:
            instance = Instance(
                model=self.model,
                gpu=self.gpu,
                tensor_parallel=self.tensor_parallel,
                cost=self.roofline,
                max_model_len="auto",
            )
            self._wire = instance.to_wire()
        return self._wire

    def _replay(
        self, workload: str, rate: float, chunk: int, requests: int, seed: int, arrivals: str
    ) -> tuple[float, ...]:
        drawn = (workload, rate, requests, seed, arrivals)
        if drawn not in self.traces:
            self.traces[drawn] = synthesize(
                workload, requests=requests, rate=rate, seed=seed, arrivals=ARRIVALS[arrivals]
            )
        trace = self.traces[drawn]
        policy = authors_chunked(max_num_batched_tokens=chunk)
        wire = self._instance_wire()
        scheduler = policy.scheduler_of(0).to_wire(num_blocks=wire["blocks"] + 1, defaults=(chunk, 256))
        columns = _native.columns(trace, policy)
        # Straight to the engine: a fit replays thousands of times, and reads six numbers of each.
        outcome = _native.run([{**wire, "scheduler": scheduler}], columns, routing="fewest_requests")
        ttft = (outcome.columns["first_token"] - columns["arrival_ticks"]) / TICKS_PER_SECOND
        gaps = outcome.itl
        (stats,) = json.loads(outcome.stats)["instances"]
        traffic = TrafficStats.from_dict(stats["traffic"])
        joules = energy_j([traffic], [int(outcome.columns["finish"].max())]) or 0.0
        tokens = int(columns["prompt_tokens"].sum()) + int(columns["output_tokens"].sum())
        return (
            float(ttft.mean()),
            float(np.quantile(ttft, 0.99)),
            gaps.sum_ticks / max(gaps.count, 1) / TICKS_PER_SECOND,
            gaps.quantile_s(0.99) or 0.0,
            traffic.expert_bytes / requests,
            joules / tokens,
        )
