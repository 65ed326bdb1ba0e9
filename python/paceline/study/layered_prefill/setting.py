"""What is replayed: instances, schedulers and drawn traces, and the replays done so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from paceline.calibration import Fit, load_fit
from paceline.cost import Coverage, Roofline
from paceline.deployment import Cluster, Instance, Links
from paceline.model import Model
from paceline.policies.layered_prefill import authors_chunked, layered_prefill
from paceline.policy import Policy
from paceline.replaying import replay
from paceline.result import Result
from paceline.study.layered_prefill import paper
from paceline.study.model import Table
from paceline.study.work import Work
from paceline.synthesis import Arrivals, BenchmarkClient, Empirical, Workload, preset, synthesize
from paceline.trace import Trace

__all__ = [
    "ARXIV",
    "FIT",
    "SHAREGPT",
    "SPAN_S",
    "Case",
    "Runs",
    "Served",
    "between",
    "chunked",
    "layered",
    "middle",
]

FIT: Final = "h100-sxm-x2-qwen3-30b-a3b"
ARXIV: Final = "arxiv-summarization"
SHAREGPT: Final = "sharegpt"
#: Seconds of arrivals in a trace: ``benchmarks/benchmark_batch.py`` (427f4416) sends ``int(120 s * rate)``.
SPAN_S: Final = 120
#: The authors' entry of their table, by layers: Qwen's 48 are 16 groups of 3, gpt-oss-20b's 24 are 12 of 2.
#: The dense model has none; its 32 layers are 16 of 2.
_GROUPS: Final = {48: 16, 24: 12, 32: 16}
_CLIENT: Final = BenchmarkClient()
_SHAREGPT_FILE: Final = "sarathi_sharegpt8k_lengths.csv.zst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A scheduler under a load.

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

    def __post_init__(self) -> None:
        if not self.requests:
            object.__setattr__(self, "requests", int(SPAN_S * self.rate))


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What one replay came to: seconds, bytes and joules a token.

    ``results`` are kept by `Runs` where a page needs more than this.
    """

    ttft: float
    ttft_p99: float
    tbt: float
    tbt_p99: float
    tbt_std: float
    e2e: float
    load: float
    energy: float
    batch: float
    fairness: float


def chunked(tokens: int = 512) -> Policy:
    """Return the paper's baseline."""
    return authors_chunked(max_num_batched_tokens=tokens)


def layered(layers: int) -> Policy:
    """Return layered prefill with its authors' table of groups: 16 of 48 layers, 12 of 24."""
    return layered_prefill(layers=layers, groups=_GROUPS[layers])


def middle(values: Sequence[Served], name: str) -> float:
    """Return the median over traces of a figure."""
    return float(np.median([getattr(served, name) for served in values]))


def between(values: Sequence[Served], name: str, scale: float, stated: float) -> str:
    """Say where half of the traces lie, and whether the paper's one trace could be among them."""
    low, high = np.quantile([scale * getattr(served, name) for served in values], (0.25, 0.75))
    least, most = (scale * pick(getattr(served, name) for served in values) for pick in (min, max))
    where = (
        "among them"
        if low <= stated <= high
        else "outside, but inside all"
        if least <= stated <= most
        else "outside all"
    )
    return f"half of our traces: {low:.3g} to {high:.3g}; the paper's is {where}"


class Runs:
    """The replays of a study, each done once.

    Parameters
    ----------
    work
        How to run.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self._served: dict[Case, list[Served]] = {}
        self._results: dict[Case, list[Result]] = {}
        self._planned: set[Case] = set()
        self._traces: dict[tuple[object, ...], Trace] = {}

    @cached_property
    def fit(self) -> Fit:
        """The fitted costs."""
        return load_fit(FIT)

    @cached_property
    def fits(self) -> tuple[Fit, ...]:
        """The fit, and those of equal cost after it."""
        return (self.fit, *self.fit.variants())

    def equals(self, *cases: Case) -> list[Case]:
        """Return the cases under each fit of equal cost."""
        count = 3 if self.work.quick else len(self.fits)
        return [
            replace(case, equal=index) for case in cases for index in range(1, min(count, len(self.fits)))
        ]

    def range(self, case: Case, figure: Callable[[Case], float], unit: str = "") -> str:
        """Say between what a figure lies over the fits of equal cost, the fit itself among them."""
        values = [figure(each) for each in (case, *self.equals(case))]
        if len(values) == 1:
            return ""
        return f"fits of equal cost: {min(values):.3g} to {max(values):.3g}{unit}"

    def sized(self, case: Case) -> Case:
        """Return the case at the size of this run."""
        if not self.work.quick:
            return case
        return replace(case, requests=min(case.requests, 40), traces=min(case.traces, 2))

    def plan(self, *cases: Case) -> None:
        """Say that these will be replayed."""
        for case in map(self.sized, cases):
            if case not in self._planned:
                self._planned.add(case)
                self.work.plan(case.traces * case.requests)

    def served(self, case: Case) -> list[Served]:
        """Return what the replays of a case came to, one for each trace."""
        case = self.sized(case)
        if case not in self._served:
            self._served[case] = [_served(result) for result in self._replays(case)]
        return self._served[case]

    def results(self, case: Case) -> list[Result]:
        """Return the replays of a case themselves."""
        return self._replays(self.sized(case))

    def trace(self, case: Case, seed: int) -> Trace:
        """Draw a trace of a case."""
        key = (case.workload, case.rate, case.requests, seed, case.arrivals)
        if key not in self._traces:
            self._traces[key] = synthesize(
                self.workload(case.workload),
                requests=case.requests,
                rate=case.rate,
                seed=seed,
                arrivals=case.arrivals,
            )
        return self._traces[key]

    def workload(self, name: str) -> Workload:
        """Return a workload: real lengths where they are at hand, else distributions fitted to them."""
        given = preset(name)
        file = self._real(name)
        if file is None:
            return given
        return Workload(name=name, lengths=Empirical.from_csv(file), source=f"the lengths of {file.name}")

    def _real(self, name: str) -> Path | None:
        if name != SHAREGPT or self.work.data is None:
            return None
        file = self.work.data / _SHAREGPT_FILE
        return file if file.is_file() else None

    def cluster(self, case: Case) -> Cluster:
        """Return what serves a case."""
        instance = self.instance(case.model, case.workload, table_1=case.table_1, equal=case.equal)
        if not case.split:
            return Cluster([instance])
        gpu = instance.resolved_gpu
        assert gpu is not None, "Invariant: every instance of the study has a GPU"
        gbps = 8 * gpu.link_bytes_per_s / 1e9
        return Cluster(2 * [replace(instance, tensor_parallel=1)], links=Links(gbps=gbps))

    def instance(self, model: str, workload: str, *, table_1: bool = False, equal: int = 0) -> Instance:
        """Return two H100 with a model.

        Table 1's coverage was measured on ShareGPT, and the fitted one is of arXiv's chunks. Nothing is known
        of GPT's: uniform routing. The dense model has the catalog's efficiencies, since those fitted to
        Qwen's small matrices say nothing of large ones.
        """
        if model == "dense":
            made = Instance(model="llama-3.1-8b", gpu="h100-sxm", tensor_parallel=2, max_model_len="auto")
            return replace(made, gpu=self.fit.resolved_gpu())
        fit = self.fits[equal]
        coverage: Coverage | None = None
        if model == "qwen":
            coverage = (
                Coverage.load("qwen3-30b-a3b-sharegpt") if workload == SHAREGPT or table_1 else fit.coverage
            )
        return Instance(
            model=_gpt() if model == "gpt" else fit.model,
            gpu=fit.resolved_gpu(),
            tensor_parallel=fit.tensor_parallel,
            cost=Roofline(efficiency=fit.efficiency, coverage=coverage),
            max_model_len="auto",
        )

    def borrowed(self, case: Case) -> str:
        """Say what the costs of a case were fitted to, where that is something else."""
        fits = dict.fromkeys(instance.borrowed_fit for instance in self.cluster(case).instances)
        return "; ".join(fit for fit in fits if fit is not None)

    def lengths_table(self) -> Table:
        """Return how the lengths that are drawn compare with Table 4."""
        rows = []
        for name, stated in paper.LENGTHS.items():
            recipe = self.workload(name)
            drawn = synthesize(recipe, requests=20_000, rate=1.0, seed=0).frame
            for side, at in (("prompt_tokens", 0), ("output_tokens", 3)):
                tokens = drawn.get_column(side)
                for statistic, of, value in (
                    ("mean", stated[at], tokens.mean()),
                    ("p90", stated[at + 1], tokens.quantile(0.9)),
                    ("std", stated[at + 2], tokens.std()),
                ):
                    rows.append((name, side, statistic, of, float(value)))  # type: ignore[arg-type]
        frame = pl.DataFrame(
            rows, schema=["workload", "side", "statistic", "paper", "ours"], orient="row"
        ).with_columns((pl.col("ours") / pl.col("paper") - 1).alias("off"))
        return Table(
            name="table-4",
            caption="Table 4: lengths in tokens. Ours are 20,000 draws from what is replayed (fitted)",
            frame=frame,
            formats={"ours": ".0f", "off": "+.1%"},
        )

    def lengths_source(self) -> str:
        """Say where the lengths come from."""
        sources = {name: self.workload(name).source for name in paper.LENGTHS}
        return "\n".join(f"- {name}: {source}" for name, source in sources.items())

    def _replays(self, case: Case) -> list[Result]:
        if case not in self._results:
            self.plan(case)
            cluster = self.cluster(case)
            found = []
            for seed in range(case.traces):
                found.append(replay(self.trace(case, seed), cluster, case.policy))
                self.work.done(f"{case.policy.name}, {case.workload} at {case.rate:g}/s", case.requests)
            self._results[case] = found
        return self._results[case]


def _gpt() -> Model:
    """Return gpt-oss-20b with 16-bit experts, as the paper runs it (section 5.1)."""
    model = Model.load("gpt-oss-20b")
    assert model.experts is not None, "Invariant: gpt-oss-20b is a mixture"
    return replace(model, name="gpt-oss-20b-bf16", experts=replace(model.experts, dtype="bfloat16"))


def _served(result: Result) -> Served:
    requests, gaps, totals = result.requests, result.itl, result.totals()
    ttft = requests["ttft"].drop_nulls().to_numpy()
    # Tokens a second of each request after its first.
    rates = 1.0 / requests["tpot"].drop_nulls().to_numpy()
    return Served(
        ttft=float(ttft.mean()),
        ttft_p99=float(np.quantile(ttft, 0.99)),
        tbt=gaps.sum_ticks / max(gaps.count, 1) / 1e12,
        tbt_p99=gaps.quantile_s(0.99) or 0.0,
        tbt_std=float(np.sqrt(gaps.variance or 0.0)),
        e2e=float(requests["e2e"].drop_nulls().to_numpy().mean()),
        load=float(totals.expert_bytes_per_request or 0.0),
        energy=float(totals.energy_per_token_j or 0.0),
        batch=totals.mean_batch_busy,
        # Jain, Chiu, Hawe: A Quantitative Measure of Fairness and Discrimination (DEC-TR-301, 1984).
        fairness=float(rates.sum() ** 2 / (len(rates) * (rates**2).sum())),
    )
