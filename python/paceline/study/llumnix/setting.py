"""The cluster, the systems and the traces of Llumnix's serving experiment, and what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from paceline import policies
from paceline.cost import Roofline
from paceline.deployment import Cluster, Instance, Links, Medium
from paceline.hardware import Gpu
from paceline.model import Model
from paceline.policies.llumnix_dispatch import llumnix_dispatch
from paceline.policy import Policy, Scheduler
from paceline.result import Result
from paceline.study.paper import Paper
from paceline.study.trials import Trial
from paceline.trace import Trace

__all__ = [
    "INSTANCES",
    "PAPER",
    "PERIOD_S",
    "WORKLOADS",
    "PowerLaws",
    "Workload",
    "cluster",
    "llumnix",
    "measured",
    "power_law",
    "systems",
]

PAPER: Final = Paper.load("paceline.study.llumnix")

INSTANCES: Final = 16
_LONGEST: Final = 6144
"""The most tokens of a prompt or an output."""

#: config.json of huggyllama/llama-7b, but for its 2,048 positions: the traces are longer.
_LLAMA: Final = replace(Model.load("llama-2-7b"), name="llama-7b", max_positions=2 * _LONGEST)

_EXPONENTS: Final = {128: 2.0, 256: 1.5, 512: 1.15}
"""The exponents of the power laws, by their mean."""

PERIOD_S: Final = 0.2
"""Seconds between two rounds of migrations: four steps of an instance under load."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A trace of the experiment.

    Parameters
    ----------
    prompt, output
        The means of its power laws, in tokens.
    rates
        The lowest and the highest requests a second.
    threshold
        Steps left below which an instance is a source of migrations.
    """

    prompt: int
    output: int
    rates: tuple[float, float]
    threshold: float


WORKLOADS: Final[Mapping[str, Workload]] = {
    "S-S": Workload(128, 128, (32.0, 38.0), 3.0),
    "M-M": Workload(256, 256, (7.4, 8.0), 10.0),
    "L-L": Workload(512, 512, (2.6, 3.2), 3.0),
    "S-L": Workload(128, 512, (4.1, 4.4), 10.0),
    "L-S": Workload(512, 128, (10.0, 22.0), 3.0),
}
"""Short, medium and long prompts and outputs: artifact/63_serving_performance/run.sh at 92f6f9d5."""


def power_law(rng: np.random.Generator, mean: int, requests: int) -> npt.NDArray[np.int64]:
    """Draw lengths as the paper's benchmark does.

    Ranks from 1 to twice the mean are drawn from a power law and scaled to the mean, rounded up; the longest
    are cut to 6,144 tokens (``gen_random_response_lens`` of ``benchmarks-repo/benchmark_throughput.py``).

    Examples
    --------
    >>> import numpy as np
    >>> lengths = power_law(np.random.default_rng(0), 256, 10_000)
    >>> round(lengths.mean()), int(lengths.max())
    (254, 6144)
    """
    ranks = np.arange(1, 2 * mean)
    weights = ranks ** -_EXPONENTS[mean]
    drawn = rng.choice(ranks, size=requests, p=weights / weights.sum())
    scaled: npt.NDArray[np.int64] = np.ceil(drawn * (mean / drawn.mean())).astype(np.int64)
    return np.minimum(scaled, _LONGEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaws:
    """Poisson arrivals of requests whose lengths follow power laws.

    Parameters
    ----------
    prompt, output
        The means, in tokens.
    rate
        Requests a second.
    requests
        How many.
    """

    prompt: int
    output: int
    rate: float
    requests: int

    def draw(self, seed: int) -> Trace:
        """Draw the trace of a seed: at every rate the same lengths, and gaps that only differ in scale."""
        rng = np.random.default_rng([seed, self.prompt, self.output])
        prompts, outputs = (power_law(rng, mean, self.requests) for mean in (self.prompt, self.output))
        return Trace.from_columns(
            arrival=np.cumsum(rng.exponential(1.0, self.requests)) / self.rate,
            prompt_tokens=prompts,
            output_tokens=outputs,
        )


def cluster(*, request_s: float = 0.0) -> Cluster:
    """Return sixteen instances on A10s, four in a machine, with 64 Gb/s between machines.

    Parameters
    ----------
    request_s
        Seconds of the host in each step for each request of it.
    """
    efficiency = Gpu.load("a10").efficiency
    assert efficiency is not None, "Invariant: the catalog gives it"
    cost = Roofline(efficiency=replace(efficiency, attention_request_s=request_s / _LLAMA.layers))
    one = Instance(
        model=_LLAMA,
        gpu="a10",
        gpu_memory_utilization=0.9,
        max_model_len=2 * _LONGEST,
        cost=cost if request_s else None,
    )
    links = Links(port="pcie-4-x16", per_node=4, uplink=Medium(gbps=64))
    return Cluster([one] * INSTANCES, links=links)


def _scheduler() -> Scheduler:
    """Return how instances form steps: vLLM's whole prompts first, with the artifact's tokens of a step."""
    scheduler = policies.vllm_v0(max_num_batched_tokens=12_800).scheduler
    assert isinstance(scheduler, Scheduler)
    return scheduler


def llumnix(threshold: float, *, period_s: float = PERIOD_S) -> Policy:
    """Return Llumnix as the artifact runs it.

    It dispatches as INFaaS++ does, and migrates from instances with fewer steps left than the threshold.
    """
    own = policies.llumnix(scheduler=_scheduler(), migrate_below=threshold, period_s=period_s)
    return replace(own, on_arrival=llumnix_dispatch("load", defrag=False))


def systems(threshold: float) -> dict[str, Policy]:
    """Return the systems that are compared, by name."""
    scheduler = _scheduler()
    apart: dict[str, Any] = {"scheduler": scheduler, "migration": False}
    return {
        "round robin": policies.llumnix(**apart, dispatch="balanced"),
        "fewest requests": replace(policies.vllm_v0(), scheduler=scheduler),
        "INFaaS++": policies.llumnix(**apart, defrag=False),
        "Llumnix": llumnix(threshold),
    }


def measured(_: Trial, __: Trace, result: Result) -> dict[str, float]:
    """Return the measures of a replay, in seconds.

    The wait of a preempted or a migrated request outside the batch is its loss.
    """
    rows = result.requests
    found: dict[str, float] = {}
    for name, column in (("E2E", "e2e"), ("TTFT", "ttft"), ("TPOT", "tpot")):
        values = rows[column].drop_nulls().to_numpy()
        found[f"{name} mean"] = float(values.mean())
        found[f"{name} P99"] = float(np.percentile(values, 99))
    return found | {
        "preemptions": float(rows["preemptions"].sum()),
        "migrations": float(rows["migrations"].sum()),
        "loss": float(rows["preempted"].fill_null(0.0).to_numpy().mean()),
        "unfinished": float((rows["status"] != "finished").sum()),
    }
