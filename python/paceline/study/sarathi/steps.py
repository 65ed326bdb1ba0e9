"""What longer steps change.

Under a strict bound at most one token in a hundred may wait for a long prompt. Where vLLM's decode steps are
longer, fewer of them pass between two prompts, and its capacity falls. The authors have published steps that
they measured, which are longer than the catalog's: those are of later engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from paceline import policies
from paceline.cost import Roofline
from paceline.deployment import Cluster, Instance
from paceline.hardware import Gpu
from paceline.model import Model
from paceline.policy import Policy
from paceline.replaying import replay
from paceline.study.sarathi.setting import YI, Case, highest, systems, traces
from paceline.study.work import Work
from paceline.trace import Trace

__all__ = ["FORMATS", "longer"]

_DECODES: Final = (1, 128)
_PROMPTS: Final = (512, 8192)
_COLUMNS: Final = ("1 decode, ms", "128 decodes, ms", "prompt of 512, ms", "prompt of 8,192, ms")
FORMATS: Final = {
    **dict.fromkeys(_COLUMNS, ".0f"),
    **dict.fromkeys(("vLLM", "Sarathi-Serve", "over vLLM"), ".2f"),
}
"""How the table's numbers are written."""

#: osdi-experiments/figure-2/decode.csv and prefill.csv of microsoft/sarathi-serve (02d2567e): the mean
#: ``batch_execution_time`` of Yi-34B-200K on two A100, decodes behind prompts of 1,020 tokens.
_MEASURED: Final = (46.80, 189.33, 105.58, 1863.26)
_CONTEXT: Final = 1020


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variation:
    """A model under the strict bound of ShareGPT, with other steps or other limits.

    ``step_s`` is added to each step, and ``request_s`` for each of its requests. ``bandwidth`` replaces the
    memory's. ``requests`` and ``tokens`` are vLLM's limits.
    """

    what: str
    model: str = "Yi-34B"
    step_s: float = 0.0
    request_s: float = 0.0
    bandwidth: float | None = None
    requests: int = 256
    tokens: int = 32768

    def cluster(self) -> Cluster:
        """Return the GPUs with these steps."""
        gpu = Gpu.load("a100-80gb")
        if self.bandwidth is not None:
            gpu = replace(gpu, bandwidth_bytes_per_s=self.bandwidth)
        model = YI if self.model == "Yi-34B" else Model.load("mistral-7b-v0.3")
        assert gpu.efficiency is not None, "Invariant: the catalog has this GPU's efficiencies"
        efficiency = replace(
            gpu.efficiency,
            step_s=gpu.efficiency.step_s + self.step_s,
            attention_request_s=self.request_s / model.layers,
        )
        ranks = 2 if self.model == "Yi-34B" else 1
        cost = Roofline(efficiency=efficiency)
        return Cluster([Instance(model=model, gpu=gpu, tensor_parallel=ranks, cost=cost)])

    def systems(self) -> dict[str, Policy]:
        """Return the two schedulers that are compared."""
        vllm = policies.vllm_v0(max_num_batched_tokens=self.tokens, max_num_seqs=self.requests)
        return {"vLLM": vllm, "Sarathi-Serve": systems("strict")["Sarathi-Serve"]}


_VARIATIONS: Final = (
    _Variation(what="as in the study"),
    _Variation(
        what="the authors' limits of vLLM: 128 requests, 8,192 tokens a step", requests=128, tokens=8192
    ),
    # The authors' README names the PCIe card; its data sheet has 1,935 GB/s.
    _Variation(what="the memory of an A100 PCIe", bandwidth=1.935e12),
    _Variation(what="10 ms more a step", step_s=10e-3),
    _Variation(what="19 ms more a step", step_s=19e-3),
    _Variation(what="19 ms more a step, 0.5 ms a request", step_s=19e-3, request_s=0.5e-3),
    _Variation(what="19 ms more a step, 1 ms a request", step_s=19e-3, request_s=1e-3),
    _Variation(what="as in the study", model="Mistral-7B"),
    _Variation(what="10 ms more a step", model="Mistral-7B", step_s=10e-3),
)


def longer(work: Work) -> pl.DataFrame:
    """Return the steps of each variation, and what vLLM and Sarathi-Serve serve with them."""
    drawn = traces("ShareGPT", work)
    measured = dict(zip(_COLUMNS, _MEASURED, strict=True))
    rows: list[dict[str, object]] = [
        {
            "model": "Yi-34B",
            "steps": "measured by the authors",
            **measured,
            "vLLM": None,
            "Sarathi-Serve": None,
        }
    ]
    for one in _VARIATIONS:
        cluster, case = one.cluster(), Case(one.model, "ShareGPT", "strict")
        rates = {
            name: highest(case, drawn, policy, work.workers, cluster).rate
            for name, policy in one.systems().items()
        }
        took = dict(zip(_COLUMNS, _steps(cluster), strict=True))
        rows.append({"model": one.model, "steps": one.what, **took, **rates})
    table = pl.DataFrame(rows, infer_schema_length=None)
    return table.with_columns((pl.col("Sarathi-Serve") / pl.col("vLLM")).alias("over vLLM"))


def _steps(cluster: Cluster) -> list[float]:
    """Return the milliseconds of a step of decodes for each count, and of each prompt alone."""
    decodes = [_alone(cluster, [_CONTEXT] * count, 2) for count in _DECODES]
    prompts = [_alone(cluster, [_CONTEXT] * count, 1) for count in _DECODES]
    alone = [_alone(cluster, [size], 1) for size in _PROMPTS]
    return [*(two - one for two, one in zip(decodes, prompts, strict=True)), *alone]


def _alone(cluster: Cluster, prompts: Sequence[int], output: int) -> float:
    """Return the latency of the first of requests that arrive together, in milliseconds."""
    count = len(prompts)
    trace = Trace.from_columns(
        arrival=[0.0] * count, prompt_tokens=list(prompts), output_tokens=[output] * count
    )
    policy = policies.vllm_v0(max_num_batched_tokens=max(sum(prompts), 1024))
    return 1e3 * float(replay(trace, cluster, policy).requests["e2e"][0])
