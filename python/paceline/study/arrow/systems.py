"""The paper's systems on eight H800, and what variations change in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from paceline import policies
from paceline.cost import Roofline
from paceline.deployment import Cluster, Instance, Links
from paceline.objectives import SLO
from paceline.planning.measured import Rule
from paceline.policy import Policy, Scheduler

__all__ = ["ABLATIONS", "SYSTEMS", "TITLES", "Setting"]

TITLES: Final = {
    "arrow": "Arrow",
    "tp8": "vLLM, TP 8",
    "disaggregated": "vLLM-disaggregated, TP 4 + TP 4",
    "minimal_load": "minimal load, 4 + 4",
    "round_robin": "round robin, 4 + 4",
    "xllm": "xLLM-service's form",
    "replicas": "vLLM, 8 instances",
    "distserve": "DistServe, 4 + 4",
}
SYSTEMS: Final = ("arrow", "tp8", "disaggregated")
ABLATIONS: Final = ("arrow", "minimal_load", "round_robin")

_SCHEDULING: Final[Mapping[str, Literal["slo_aware", "minimal_load", "round_robin"]]] = {
    "arrow": "slo_aware",
    "minimal_load": "minimal_load",
    "round_robin": "round_robin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How systems are built.

    Parameters
    ----------
    arrow
        Arguments of `paceline.policies.arrow`; by default those that users get.
    batched_tokens
        Tokens of a step, in all systems.
    host_step_s
        Seconds that each step takes on the host.
    disaggregated_seqs
        Requests of a step in the disaggregated baseline.
    prefill
        Instances that prefill at the start, of eight; None: half of them.
    rule
        What must reach the target, as of `paceline.capacity`.
    tpot
        The objective in place of the trace's own, in seconds; None: that of Table 1.
    """

    arrow: Mapping[str, Any] = field(default_factory=dict)
    batched_tokens: int = 2048
    host_step_s: float = 0.0
    disaggregated_seqs: int = 256
    prefill: int | None = None
    rule: Rule = "joint"
    tpot: float | None = None

    def objectives(self, own: SLO) -> SLO:
        """Return the objectives of a trace."""
        return own if self.tpot is None else replace(own, tpot=self.tpot)

    def policy(self, system: str, slo: SLO, gpus: int = 8) -> Policy:
        """Return the policy of a system."""
        if system in ("tp8", "replicas"):
            return self._vllm()
        if system == "disaggregated":
            return policies.disaggregated(scheduler=self._scheduler(self.disaggregated_seqs))
        prefill = gpus - gpus // 2 if self.prefill is None else self.prefill
        own: dict[str, Any] = {
            "prefill": prefill,
            "decode": gpus - prefill,
            "ttft": slo.ttft,
            "tpot": slo.tpot,
        }
        if system == "distserve":
            return policies.distserve(prefill=prefill, decode=gpus - prefill)
        if system == "xllm":
            return policies.arrow_xllm(**own)
        given = {**own, **self.arrow}
        if self.batched_tokens != 2048:
            given["scheduler"] = self._scheduler()
        return policies.arrow(**given, scheduling=_SCHEDULING[system])

    def cluster(self, system: str, gpus: int = 8) -> Cluster:
        """Return the GPUs of a system as instances, joined by NVLink."""
        degree = {"tp8": 8, "disaggregated": 4}.get(system, 1)
        cost = None
        one = Instance(model="llama-3.1-8b", gpu="h800", tensor_parallel=degree, max_model_len="auto")
        if self.host_step_s:
            gpu = one.resolved_gpu
            assert gpu is not None
            assert gpu.efficiency is not None
            cost = Roofline(
                efficiency=replace(gpu.efficiency, step_s=gpu.efficiency.step_s + self.host_step_s)
            )
        several = (gpus // degree) * [replace(one, cost=cost)]
        return Cluster(several, links=Links(port="nvlink-h800") if len(several) > 1 else None)

    def _scheduler(self, seqs: int = 256) -> Scheduler:
        own = self._vllm(seqs).scheduler
        assert isinstance(own, Scheduler)
        return own

    def _vllm(self, seqs: int = 256) -> Policy:
        return policies.vllm_v0(
            chunked_prefill=True, max_num_batched_tokens=self.batched_tokens, max_num_seqs=seqs
        )
