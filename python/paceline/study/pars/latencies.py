"""Latency per token by scheduler: at rates, and in a burst."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from paceline import policies
from paceline.deployment import Cluster, Instance
from paceline.policy import Policy
from paceline.policy.scheduler import QueueOrder
from paceline.study.charts import lines
from paceline.study.choices import choices
from paceline.study.model import Fact, Table
from paceline.study.pages import Content
from paceline.study.pars.corpora import Corpus
from paceline.study.pars.paper import PAPER
from paceline.study.pars.predictors import Predictors
from paceline.study.pars.served import CLUSTER, SYSTEMS, Latency, Noise, Served, latency
from paceline.study.trials import Trial, Trials
from paceline.study.work import Work

__all__ = ["Latencies", "variations"]

LOADS: Final = (0.6, 0.8, 0.9, 1.0, 1.1, 1.3)
"""Arrival rates, in requests that FCFS finishes a second amid a burst."""

TAUS: Final = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_BUSY: Final = 1.1
_CACHED: Final = ("pointwise", "listwise", "cross", "pairwise")

#: The paper's taus on Alpaca with DeepSeek-R1 (Table II), for lengths of which there are no prompts.
_R1: Final = ("listwise", "pointwise", "pairwise")


STATIC: Final = (8, 32, 128)
"""Requests of a static batch: the default that users get, and two larger ones."""


def named(corpus: str, system: str) -> str:
    """Return the name of a system, and what its scores are where no ranker made them."""
    if corpus == "r1" and system in _R1:
        tau = PAPER["table-2", "r1", system].number
        return f"{SYSTEMS[system]} (true lengths with noise, tau {tau:g})"
    return SYSTEMS[system]


class Latencies:
    """The replays of the study.

    Parameters
    ----------
    predictors
        Whose scores are served.
    corpora
        What is served, by name.
    work
        How to run.
    """

    def __init__(self, predictors: Predictors, corpora: dict[str, Corpus], work: Work) -> None:
        self.predictors = predictors
        self.corpora = corpora
        self.work = work
        self.requests = work.pick(2_000, 200)
        self.seeds = range(work.pick(5, 2))
        self.loads = LOADS[1::2] if work.quick else LOADS
        self.taus = TAUS[::4] if work.quick else TAUS
        self.trials: Trials[Latency] = Trials(latency, work)

    def systems(self, corpus: str) -> list[str]:
        """Return the systems that a corpus has scores for."""
        known = _R1 if corpus == "r1" else _CACHED if corpus != "alpaca" else _R1
        return [name for name in SYSTEMS if name in ("fcfs", "oracle") or name in known]

    def found(
        self,
        corpus: str,
        system: str | Noise,
        load: float | None = None,
        *,
        policy: Policy | None = None,
        cluster: Cluster = CLUSTER,
    ) -> list[Latency]:
        """Return a system's latencies, one for each seed; a load of None is a burst."""
        return self.trials.of(self.of(corpus, system, load, policy=policy, cluster=cluster))

    def gains(self, corpus: str, system: str | Noise, what: str, load: float | None = None) -> list[float]:
        """Return FCFS's latency over a system's, one for each seed."""
        pairs = zip(self.found(corpus, "fcfs", load), self.found(corpus, system, load), strict=True)
        return [getattr(first, what) / getattr(second, what) for first, second in pairs]

    def burst_page(self) -> dict[str, Content]:
        """Return latencies of a burst, and the paper's gains beside ours."""
        self._prepare(None)
        rows = [
            {
                "requests": self.corpora[corpus].title,
                "scheduler": named(corpus, system),
                "mean, s/token": _mean(one.mean for one in found),
                "P90, s/token": _mean(one.p90 for one in found),
                "mean, over": _interval(self.gains(corpus, system, "mean")),
                "P90, over": _interval(self.gains(corpus, system, "p90")),
                "longest wait, s": max(one.waited_s for one in found),
                "span, s": _mean(one.span_s for one in found),
            }
            for corpus in self.corpora
            for system in self.systems(corpus)
            for found in (self.found(corpus, system),)
        ]
        formats = {"mean, s/token": ".3f", "P90, s/token": ".3f", "longest wait, s": ".0f", "span, s": ".0f"}
        compared: list[tuple[str, str | Noise, str]] = [
            ("llama", "pairwise", ""),
            ("llama", Noise(tau=PAPER["table-2", "llama", "pairwise"].number), ", with the paper's tau"),
            ("r1", "pairwise", ", with the paper's tau"),
        ]
        facts = [
            Fact.compare(
                PAPER[table, corpus],
                _mean(self.gains(corpus, system, what)),
                "predicted",
                name=f"{self.corpora[corpus].title}: FCFS over PARS{how}, {label}",
                notes=("scores made by noise" if how else "", _bound(corpus)),
            )
            for table, what, label in (("burst", "mean", "mean"), ("burst-p90", "p90", "P90"))
            for corpus, system, how in compared
        ]
        best = self.gains("llama", "oracle", "mean")
        facts.append(
            Fact.compare(
                PAPER["burst", "llama"],
                _mean(best),
                "predicted",
                name=f"{self.corpora['llama'].title}: FCFS over the oracle, mean",
                notes=(
                    f"true lengths as scores: {min(best):.1f} to {max(best):.1f} over the seeds is the most "
                    "that any ranker reaches on these lengths",
                    _bound("llama"),
                ),
            )
        )
        return {"burst": Table(pl.DataFrame(rows), formats), "burst-ratios": facts}

    def static_page(self) -> dict[str, Content]:
        """Return latencies of a burst that is served in static batches, by their size."""
        served = [
            (corpus, size, system)
            for corpus in self.corpora
            for size in STATIC
            for system in ("fcfs", "pairwise", "oracle")
        ]

        def found(corpus: str, size: int, system: str) -> list[Latency]:
            order: QueueOrder = "arrival" if system == "fcfs" else "score"
            return self.found(corpus, system, policy=policies.static(size=size, order=order))

        rows = []
        for corpus, size, system in served:
            these, first = found(corpus, size, system), found(corpus, size, "fcfs")
            pairs = list(zip(first, these, strict=True))
            rows.append(
                {
                    "requests": self.corpora[corpus].title,
                    "batch": size,
                    "scheduler": named(corpus, system),
                    "mean, s/token": _mean(one.mean for one in these),
                    "P90, s/token": _mean(one.p90 for one in these),
                    "mean, over": _interval([one.mean / other.mean for one, other in pairs]),
                    "P90, over": _interval([one.p90 / other.p90 for one, other in pairs]),
                    "span, s": _mean(one.span_s for one in these),
                }
            )
        formats = {"mean, s/token": ".3f", "P90, s/token": ".3f", "span, s": ".0f"}
        return {"static-batches": Table(pl.DataFrame(rows), formats)}

    def rates_page(self) -> dict[str, Content]:
        """Return latencies by arrival rate."""
        self._prepare(None)
        self._prepare(*self.loads)
        rows = [
            {
                "requests": self.corpora[corpus].title,
                "scheduler": named(corpus, system),
                "load": load,
                "rate, req/s": load * self._rate(corpus),
                "mean, s/token": _mean(one.mean for one in found),
                "P90, s/token": _mean(one.p90 for one in found),
            }
            for corpus in self.corpora
            for system in self.systems(corpus)
            for load in self.loads
            for found in (self.found(corpus, system, load),)
        ]
        frame = pl.DataFrame(rows)
        table = frame.pivot("load", index=["requests", "scheduler"], values="mean, s/token")
        p90 = frame.pivot("load", index=["requests", "scheduler"], values="P90, s/token")
        formats = dict.fromkeys([str(load) for load in self.loads], ".3f")
        # The tables say which scores are true lengths with noise.
        shown = frame.with_columns(pl.col("scheduler").str.replace(r" \(.*\)$", ""))
        over_rates = partial(lines, x="rate, req/s", by="scheduler", panel="requests", y_scale="log")
        return {
            "mean-latency": Table(table, formats),
            "p90-latency": Table(p90, formats),
            "rates": Table(
                frame.filter(pl.col("load") == 1.0)
                .group_by("requests", maintain_order=True)
                .agg(pl.col("rate, req/s").first()),
                {"rate, req/s": ".2f"},
            ),
            "mean-figure": over_rates(shown, y="mean, s/token"),
            "p90-figure": over_rates(shown, y="P90, s/token"),
        }

    def noise_page(self) -> dict[str, Content]:
        """Return the gain over FCFS by the tau of the scores."""
        noises = [Noise(tau=tau, kind=kind) for kind in ("gaussian", "outliers") for tau in self.taus]
        corpora = [corpus for corpus in ("llama", "r1") if corpus in self.corpora]
        chosen: list[str | Noise] = ["fcfs", *noises]
        self._prepare(None)
        self.trials.announce(
            trial
            for corpus in corpora
            for load in (None, _BUSY)
            for system in chosen
            for trial in self.of(corpus, system, load)
        )
        rows = []
        for corpus in corpora:
            for noise in noises:
                for load, name in ((None, "burst"), (_BUSY, f"load {_BUSY:g}")):
                    gains = self.gains(corpus, noise, "mean", load)
                    rows.append(
                        {
                            "requests": f"{self.corpora[corpus].title}, {name}",
                            "noise": noise.kind,
                            "tau": noise.tau,
                            "FCFS over it": _mean(gains),
                            "lowest": min(gains),
                            "highest": max(gains),
                        }
                    )
        frame = pl.DataFrame(rows)
        formats = {"tau": ".1f", **dict.fromkeys(("FCFS over it", "lowest", "highest"), ".2f")}
        figure = lines(frame, x="tau", y="FCFS over it", by="noise", panel="requests", level=1.0)
        return {"gain": Table(frame, formats), "gain-figure": figure}

    def choices_page(self) -> dict[str, Content]:
        """Return what each open choice moves, in a burst of Llama's lengths."""
        corpus = "llama" if "llama" in self.corpora else next(iter(self.corpora))
        system = "pairwise"
        own = _mean(self.gains(corpus, system, "mean"))
        moved = {}
        for what, (policy, fcfs, cluster) in variations().items():
            first = self.found(corpus, "fcfs", policy=fcfs, cluster=cluster)
            second = self.found(corpus, system, policy=policy, cluster=cluster)
            moved[what] = _mean(one.mean / other.mean for one, other in zip(first, second, strict=True))
        rows = [
            {
                "choice": each.what,
                "taken": each.taken,
                "why": each.why,
                f"FCFS over PARS, here {own:.2f}": "; ".join(f"{row}: {moved[row]:.2f}" for row in each.rows)
                or "not varied",
            }
            for each in choices(__package__)
        ]
        return {"choices-table": Table(pl.DataFrame(rows))}

    def _prepare(self, *loads: float | None) -> None:
        self.trials.announce(
            trial
            for corpus in self.corpora
            for system in self.systems(corpus)
            for load in loads
            for trial in self.of(corpus, system, load)
        )

    def _rate(self, corpus: str) -> float:
        """Return the requests that FCFS finishes a second amid a burst."""
        return _mean(one.rate for one in self.found(corpus, "fcfs"))

    def of(
        self,
        corpus: str,
        system: str | Noise,
        load: float | None,
        *,
        policy: Policy | None = None,
        cluster: Cluster = CLUSTER,
    ) -> list[Trial]:
        """Return the replays of a system, one for each seed; a load of None is a burst."""
        at, scores = self.corpora[corpus], None
        score: str | Noise = system
        if corpus == "r1" and system in _R1:
            score = Noise(tau=PAPER["table-2", "r1", str(system)].number)
        elif isinstance(system, str) and system not in ("fcfs", "oracle"):
            scores = self.predictors.scores(corpus, system)
        elif system == "fcfs":
            score = "oracle"
        rate = None if load is None else round(load * self._rate(corpus), 3)
        source = Served(corpus=at, score=score, scores=scores, requests=self.requests, rate=rate)
        if policy is None:
            policy = policies.vllm() if system == "fcfs" else policies.pars()
        return [Trial(trace=source, cluster=cluster, policy=policy, seed=seed) for seed in self.seeds]


def variations() -> dict[str, tuple[Policy | None, Policy | None, Cluster]]:
    """Return the variations: PARS' policy, FCFS's, and the cluster."""
    one = Instance(model="llama-3.1-8b", gpu="a100-40gb", max_model_len="auto")
    return {
        "two instances of one GPU": (None, None, Cluster([one, one])),
        "never": (policies.pars(patience=1e6), None, CLUSTER),
        "after 30 s": (policies.pars(patience=30.0), None, CLUSTER),
        "until it is admitted": (policies.pars(keep_boost=False), None, CLUSTER),
        "64 requests a step": (policies.pars(max_num_seqs=64), policies.vllm(max_num_seqs=64), CLUSTER),
    }


def _bound(corpus: str) -> str:
    return "paper: up to, over datasets" if corpus == "llama" else "paper: over"


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return float(np.mean(found)) if found else math.nan


def _interval(values: list[float]) -> str:
    return f"{_mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"
