"""The capacity of Sarathi-Serve, vLLM 0.6.1 and Orca under bounds on the time between tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from paceline import policies
from paceline.deployment import Cluster, Instance
from paceline.model import Model
from paceline.objectives import Percentiles
from paceline.planning import Capacity, capacity
from paceline.policy import Policy
from paceline.study.charts import bars
from paceline.study.model import Figure, Study, Table
from paceline.study.pages import Content, pages
from paceline.study.work import Work
from paceline.synthesis import Empirical, Workload, preset, synthesize
from paceline.trace import Trace

__all__ = ["BOUNDS_S", "Case", "run", "systems"]

_CONTEXT: Final = 32768

#: config.json of huggingface.co/01-ai/Yi-34B.
_YI: Final = Model(
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

_CLUSTERS: Final = {
    "Mistral-7B": Cluster([Instance(model="mistral-7b-v0.3", gpu="a100-80gb")]),
    "Yi-34B": Cluster([Instance(model=_YI, gpu="a100-80gb", tensor_parallel=2)]),
}

BOUNDS_S: Final = {
    ("Mistral-7B", "strict"): 0.1,
    ("Mistral-7B", "relaxed"): 0.5,
    ("Yi-34B", "strict"): 0.2,
    ("Yi-34B", "relaxed"): 1.0,
}
"""The paper's bounds on the P99 of the time between tokens (its table 3)."""

_DELAY_S: Final = 2.0
_BUDGETS: Final = {"strict": 512, "relaxed": 2048}
_UP_TO: Final = {"Mistral-7B": 2.6, "Yi-34B": 3.7}
_SHAREGPT_FILE: Final = "sarathi_sharegpt8k_lengths.csv.zst"
_WORKLOADS: Final = {"ShareGPT": "sharegpt", "arXiv": "arxiv-summarization"}
_FORMATS: Final = dict.fromkeys(("vLLM", "Orca", "Sarathi-Serve", "over vLLM", "paper", "ours"), ".2f")


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


def run(work: Work) -> Study:
    """Run the study.

    Parameters
    ----------
    work
        ``quick`` draws one trace of 150 requests of one workload. ``data`` is a folder that may have
        Sarathi-Serve's lengths of ShareGPT; else these are drawn from a distribution fitted to them.

    Returns
    -------
    Study
        Its page.
    """
    names = list(_WORKLOADS)[: work.pick(2, 1)]
    cases = [Case(model, workload, bound) for model, bound in BOUNDS_S for workload in names]
    rows: list[dict[str, object]] = []
    for done, case in enumerate(cases):
        traces, rates = _traces(case.workload, work), dict[str, float]()
        for name, policy in systems(case.bound).items():
            rates[name] = _capacity(case, traces, policy, work.workers).rate or 0.0
        ratio = rates["Sarathi-Serve"] / rates["vLLM"] if rates["vLLM"] else None
        bound = f"{BOUNDS_S[case.model, case.bound]:g} s"
        rows.append(
            {
                "model": case.model,
                "workload": case.workload,
                "P99 TBT": bound,
                **rates,
                "over vLLM": ratio,
            }
        )
        if work.report is not None:
            work.report("cases", done + 1, len(cases))
    table = pl.DataFrame(rows)
    most = table.group_by("model", maintain_order=True).agg(pl.col("over vLLM").max().alias("ours"))
    claims = most.select("model", pl.col("model").replace_strict(_UP_TO).alias("paper"), "ours")
    contents: dict[str, dict[str, Content]] = {
        "capacity": {
            "requests": f"{_requests(work):,}",
            "traces": str(work.pick(2, 1)),
            "delay": f"{_DELAY_S:g}",
            "sarathi": Table(table, _FORMATS),
            "sarathi-rates": _rates(table),
            "sarathi-claims": Table(claims, _FORMATS),
        }
    }
    return Study(
        name="sarathi",
        title="The capacity of Sarathi-Serve",
        source="Agrawal et al., OSDI 2024 (arXiv:2403.02310)",
        pages=pages(__package__, contents),
        quick=work.quick,
    )


def _rates(table: pl.DataFrame) -> Figure:
    """Draw the rates of the schedulers, in a panel for each model."""
    names = tuple(systems("strict"))
    data = table.with_columns(pl.concat_str("workload", "P99 TBT", separator=", ").alias("case")).unpivot(
        names, index=["model", "case"], variable_name="system", value_name="requests/s"
    )
    return bars(data, x="case", y="requests/s", by="system", panel="model", size=(5.4, 3.2))


def _requests(work: Work) -> int:
    return work.pick(4_000, 150)


def _traces(workload: str, work: Work) -> list[Trace]:
    """Draw the traces of a workload; a search scales their arrivals."""
    of, requests = _workload(workload, work), _requests(work)
    return [synthesize(of, requests=requests, rate=1.0, seed=seed) for seed in range(work.pick(2, 1))]


def _capacity(case: Case, traces: Sequence[Trace], policy: Policy, workers: int | None) -> Capacity:
    """Search for the capacity of a scheduler, over several drawn traces together."""
    slo = Percentiles(tbt={99: BOUNDS_S[case.model, case.bound]}, queueing={50: _DELAY_S})
    cluster = _CLUSTERS[case.model]
    return capacity(traces, cluster, policy, slo, tolerance=0.02, workers=workers)


def _workload(name: str, work: Work) -> Workload:
    """Return the lengths of a workload: real ones if the data folder has them."""
    file = None if work.data is None else work.data / _SHAREGPT_FILE
    if name == "ShareGPT" and file is not None and file.is_file():
        return Workload(name=name, lengths=Empirical.from_csv(file), source=f"the lengths of {file.name}")
    fitted = preset(_WORKLOADS[name])
    assert isinstance(fitted, Workload), "Invariant: these workloads have no sessions"
    return fitted
