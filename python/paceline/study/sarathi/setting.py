"""The models, bounds, schedulers and workloads of the study, and the search for a rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from paceline import policies
from paceline.deployment import Cluster, Instance
from paceline.model import Model
from paceline.objectives import Percentiles
from paceline.planning import Capacity, capacity
from paceline.policy import Policy
from paceline.study.work import Work
from paceline.synthesis import Empirical, Workload, preset, synthesize
from paceline.trace import Trace

__all__ = [
    "BOUNDS_S",
    "CLUSTERS",
    "DELAY_S",
    "WORKLOADS",
    "YI",
    "Case",
    "highest",
    "requests",
    "systems",
    "traces",
]

_CONTEXT: Final = 32768

#: config.json of huggingface.co/01-ai/Yi-34B.
YI: Final = Model(
    name="yi-34b",
    layers=60,
    hidden_size=7168,
    heads=56,
    kv_heads=8,
    head_dim=128,
    intermediate_size=20480,
    vocab_size=64000,
    tied_embeddings=False,
    max_positions=_CONTEXT,
    dtype="bfloat16",
)

CLUSTERS: Final = {
    "Mistral-7B": Cluster([Instance(model="mistral-7b-v0.3", gpu="a100-80gb")]),
    "Yi-34B": Cluster([Instance(model=YI, gpu="a100-80gb", tensor_parallel=2)]),
}

BOUNDS_S: Final = {
    ("Mistral-7B", "strict"): 0.1,
    ("Mistral-7B", "relaxed"): 0.5,
    ("Yi-34B", "strict"): 0.2,
    ("Yi-34B", "relaxed"): 1.0,
}
"""The paper's bounds on the P99 of the time between tokens (its table 3)."""

DELAY_S: Final = 2.0
_BUDGETS: Final = {"strict": 512, "relaxed": 2048}
_SHAREGPT_FILE: Final = "sarathi_sharegpt8k_lengths.csv.zst"
WORKLOADS: Final = {"ShareGPT": "sharegpt", "arXiv": "arxiv-summarization"}


@dataclass(frozen=True, slots=True)
class Case:
    """A model under a bound, with the prompts and answers of a workload."""

    model: str
    workload: str
    bound: str


def systems(bound: str) -> dict[str, Policy]:
    """Return the schedulers with their defaults, but for the tokens of a step.

    Sarathi's are the paper's by bound; vLLM 0.6.1 takes the model's context.
    """
    return {
        "vLLM": policies.vllm_v0(max_num_batched_tokens=_CONTEXT),
        "Orca": policies.orca(),
        "Sarathi-Serve": policies.sarathi(chunk_size=_BUDGETS[bound]),
    }


def requests(work: Work) -> int:
    """Return how many requests a trace has."""
    return work.pick(4_000, 150)


def traces(workload: str, work: Work) -> list[Trace]:
    """Draw the traces of a workload; a search scales their arrivals."""
    of = _lengths(workload, work)
    return [synthesize(of, requests=requests(work), rate=1.0, seed=seed) for seed in range(work.pick(2, 1))]


def highest(
    case: Case, drawn: Sequence[Trace], policy: Policy, workers: int | None, cluster: Cluster | None = None
) -> Capacity:
    """Search for the capacity of a scheduler over several drawn traces together.

    Without a cluster, it is the study's of the case's model.
    """
    slo = Percentiles(tbt={99: BOUNDS_S[case.model, case.bound]}, queueing={50: DELAY_S})
    return capacity(drawn, cluster or CLUSTERS[case.model], policy, slo, tolerance=0.02, workers=workers)


def _lengths(name: str, work: Work) -> Workload:
    """Return the lengths of a workload: real ones if the data folder has them."""
    file = None if work.data is None else work.data / _SHAREGPT_FILE
    if name == "ShareGPT" and file is not None and file.is_file():
        return Workload(name=name, lengths=Empirical.from_csv(file), source=f"the lengths of {file.name}")
    fitted = preset(WORKLOADS[name])
    assert isinstance(fitted, Workload), "Invariant: these workloads have no sessions"
    return fitted
