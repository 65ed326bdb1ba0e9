"""What is replayed: schedulers, drawn traces and clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Final

import numpy as np

from paceline.calibration import Fit, load_fit
from paceline.cost import Coverage, Roofline
from paceline.deployment import Cluster, Instance, Links
from paceline.model import Model
from paceline.objectives import SLO
from paceline.policies.layered_prefill import authors_chunked, layered_prefill
from paceline.policy import Policy
from paceline.study.layered_prefill.measures import MEASURES, Served, serve
from paceline.study.paper import Paper
from paceline.study.trials import Drawn, Trial, Trials
from paceline.study.work import Work
from paceline.synthesis import Arrivals, BenchmarkClient, Constant, Empirical, Workload, preset

__all__ = ["ARXIV", "LAYERS", "LONG_PROMPTS", "PAPER", "SHAREGPT", "SPAN_S", "TITLES", "Case", "Kind", "Runs"]
__all__ += ["chunked", "layered", "objective", "schedulers"]

PAPER: Final = Paper.load(__package__)
ARXIV: Final = "arxiv-summarization"
SHAREGPT: Final = "sharegpt"
TITLES: Final = {ARXIV: "arXiv", SHAREGPT: "ShareGPT", "qwen": "Qwen", "gpt": "GPT"}
#: Layers of the paper's models, and of the dense one.
LAYERS: Final = {"qwen": 48, "gpt": 24, "dense": 32}
#: Seconds of arrivals in a trace: ``benchmarks/benchmark_batch.py`` (427f4416) sends ``int(120 s * rate)``.
SPAN_S: Final = 120
_CLIENT: Final = BenchmarkClient()
_FIT: Final = "h100-sxm-x2-qwen3-30b-a3b"
#: The authors' entry of their table, by layers: Qwen's 48 are 16 groups of 3, gpt-oss-20b's 24 are 12 of 2.
#: The dense model has none; its 32 layers are 16 of 2.
_GROUPS: Final = {48: 16, 24: 12, 32: 16}
#: Workloads of prompts that are all of one length, up to the longest context of the model, by that length.
LONG_PROMPTS: Final = {tokens: f"prompts of {tokens:,}" for tokens in (4_096, 8_192, 16_384, 32_768)}
_LONG: Final = {
    name: Workload(name=name, prompt_tokens=Constant(tokens), output_tokens=Constant(231))
    for tokens, name in LONG_PROMPTS.items()
}
_SHAREGPT_FILE: Final = "sarathi_sharegpt8k_lengths.csv.zst"


def chunked(tokens: int = 512) -> Policy:
    """Return the paper's baseline."""
    return authors_chunked(max_num_batched_tokens=tokens)


def layered(layers: int) -> Policy:
    """Return layered prefill with its authors' table of groups: 16 of 48 layers, 12 of 24."""
    return layered_prefill(layers=layers, groups=_GROUPS[layers])


def schedulers(model: str = "qwen") -> dict[str, Policy]:
    """Return the two schedulers that the paper compares."""
    return {"chunked": chunked(), "layered": layered(LAYERS[model])}


def objective(model: str, workload: str) -> SLO:
    """Return the objective of Table 5."""
    return SLO(**{name: stated.value for name, stated in PAPER.table("table-5", model, workload).items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A scheduler under a load, replayed on several drawn traces.

    Parameters
    ----------
    workload, rate
        Which lengths, and requests a second.
    policy
        The scheduler.
    model
        ``"qwen"`` or ``"gpt"``, the paper's, or ``"dense"``.
    requests, traces
        Requests of a trace (0: as many as the authors send at this rate), and how many traces.
    arrivals
        The arrival process; by default the authors' client's, which is the same in every trace.
    table_1
        Whether experts are hit as in the paper's Table 1 also where another curve was fitted.
    split
        Whether the two GPUs are two instances, joined by NVLink, in place of one.
    equal
        Which of the fits of equal cost gives the costs, from 1 on; 0: the fit itself.
    spread
        Whether a page also reads the case under the fits of equal cost.
    gpu
        The GPU of the catalog, with the fitted shares of its peaks; ``""``: the one they were fitted to.
    """

    workload: str
    rate: float
    policy: Policy
    model: str = "qwen"
    requests: int = 0
    traces: int = 24
    arrivals: Arrivals = _CLIENT
    table_1: bool = False
    split: bool = False
    equal: int = 0
    spread: bool = False
    gpu: str = ""

    def __post_init__(self) -> None:
        if not self.requests:
            object.__setattr__(self, "requests", int(SPAN_S * self.rate))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A cluster of the study: see `Case`; ``measured``: Table 1's coverage in place of the fitted one."""

    model: str
    measured: bool = False
    split: bool = False
    equal: int = 0
    gpu: str = ""


class Runs:
    """The study's cases and their outcomes.

    Parameters
    ----------
    work
        How to run.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self.trials: Trials[Served] = Trials(lambda _trial, _trace, result: serve(result), work)
        self.cluster = cache(self._cluster)

    @cached_property
    def fits(self) -> tuple[Fit, ...]:
        """The fitted costs, and after them the fits of equal cost."""
        fit = load_fit(_FIT)
        return (fit, *fit.variants())

    @property
    def fit(self) -> Fit:
        """The fitted costs."""
        return self.fits[0]

    def equals(self, *cases: Case) -> list[Case]:
        """Return the cases under each fit of equal cost."""
        count = min(self.work.pick(len(self.fits), 2), len(self.fits))
        return [replace(case, equal=index) for case in cases for index in range(1, count)]

    def range(self, case: Case, figure: Callable[[Case], float], unit: str = "") -> str:
        """Say between what a figure lies over the fits of equal cost, the fit itself among them."""
        values = [figure(each) for each in (case, *self.equals(case))]
        if len(values) == 1:
            return ""
        return f"fits of equal cost: {min(values):.3g} to {max(values):.3g}{unit}"

    def announce(self, cases: Iterable[Case]) -> None:
        """Add the replays of cases to those of the next run, where needed under all fits of equal cost."""
        for case in cases:
            for each in (case, *(self.equals(case) if case.spread else ())):
                self.trials.announce(self._trials(each))

    def served(self, case: Case) -> list[Served]:
        """Return what the replays of a case came to, one for each trace."""
        return self.trials.of(self._trials(case))

    def middle(self, case: Case, of: str) -> float:
        """Return the median over traces of one of the `MEASURES`, in its unit."""
        return MEASURES[of].scale * float(np.median([getattr(served, of) for served in self.served(case)]))

    def row(self, case: Case, *of: str) -> dict[str, float]:
        """Return the medians of several `MEASURES` by their column."""
        return {MEASURES[name].column: self.middle(case, name) for name in of}

    def attained(self, case: Case, slo: SLO) -> float:
        """Return the share of requests within an objective, averaged over traces."""
        return float(np.mean([served.result.attainment(slo) for served in self.served(case)]))

    def between(self, case: Case, of: str, stated: float) -> str:
        """Say where half of the traces lie, and whether the paper's one trace could be among them."""
        values = [MEASURES[of].scale * getattr(served, of) for served in self.served(case)]
        low, high = np.quantile(values, (0.25, 0.75))
        where = "outside, but inside all" if min(values) <= stated <= max(values) else "outside all"
        if low <= stated <= high:
            where = "among them"
        return f"half of our traces: {low:.3g} to {high:.3g}; the paper's is {where}"

    def source(self, case: Case) -> Drawn:
        """Return what draws the traces of a case."""
        return Drawn(
            workload=self.workload(case.workload),
            rate=case.rate,
            requests=self.work.pick(case.requests, min(case.requests, 40)),
            arrivals=case.arrivals,
        )

    def workload(self, name: str) -> Workload:
        """Return a workload: real lengths if the data folder has them, else distributions fitted to them."""
        file = None if self.work.data is None else self.work.data / _SHAREGPT_FILE
        if name in _LONG:
            return _LONG[name]
        if name != SHAREGPT or file is None or not file.is_file():
            fitted = preset(name)
            assert isinstance(fitted, Workload), "Invariant: the paper's workloads have no sessions"
            return fitted
        return Workload(name=name, lengths=Empirical.from_csv(file), source=f"the lengths of {file.name}")

    def borrowed(self, case: Case) -> str:
        """Say what the costs of a case were fitted to, if that is another model or split."""
        fits = dict.fromkeys(instance.borrowed_fit for instance in self._of(case).instances)
        return "; ".join(fit for fit in fits if fit is not None)

    def _trials(self, case: Case) -> list[Trial]:
        source, cluster = self.source(case), self._of(case)
        seeds = range(self.work.pick(case.traces, 1))
        return [Trial(trace=source, cluster=cluster, policy=case.policy, seed=seed) for seed in seeds]

    def _of(self, case: Case) -> Cluster:
        measured = case.model == "qwen" and (case.workload == SHAREGPT or case.table_1)
        of = Kind(model=case.model, measured=measured, split=case.split, equal=case.equal, gpu=case.gpu)
        return self.cluster(of)

    def _cluster(self, kind: Kind) -> Cluster:
        """Return two GPUs with a model.

        Table 1's coverage was measured on ShareGPT, and the fitted one is of arXiv's chunks. GPT's coverage
        is not known: uniform routing. The dense model has the catalog's efficiencies, since those fitted to
        Qwen's small matrices say nothing of large ones.
        """
        fit, model = self.fits[kind.equal], kind.model
        made = Instance(model="llama-3.1-8b", gpu="h100-sxm", tensor_parallel=2, max_model_len="auto")
        made = replace(made, gpu=kind.gpu or fit.resolved_gpu())
        if model != "dense":
            coverage = Coverage.load("qwen3-30b-a3b-sharegpt") if kind.measured else fit.coverage
            made = replace(
                made,
                model=_gpt() if model == "gpt" else fit.model,
                tensor_parallel=fit.tensor_parallel,
                cost=Roofline(efficiency=fit.efficiency, coverage=None if model == "gpt" else coverage),
            )
        if not kind.split:
            return Cluster([made])
        gpu = made.resolved_gpu
        assert gpu is not None, "Invariant: every instance of the study has a GPU"
        return Cluster(
            2 * [replace(made, tensor_parallel=1)], links=Links(gbps=8 * gpu.link_bytes_per_s / 1e9)
        )


def _gpt() -> Model:
    """Return gpt-oss-20b with 16-bit experts, as the paper runs it (section 5.1)."""
    model = Model.load("gpt-oss-20b")
    assert model.experts is not None, "Invariant: gpt-oss-20b is a mixture"
    return replace(model, name="gpt-oss-20b-bf16", experts=replace(model.experts, dtype="bfloat16"))
