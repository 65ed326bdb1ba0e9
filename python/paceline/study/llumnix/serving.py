"""Latencies and preemptions of the systems, by trace and rate, beside the paper's gains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from paceline.study.charts import lines
from paceline.study.llumnix.setting import PAPER, WORKLOADS, PowerLaws, cluster, systems
from paceline.study.model import Fact, Figure, Table
from paceline.study.pages import Content
from paceline.study.paper import Stated
from paceline.study.trials import Drawn, Source, Trial, Trials
from paceline.study.work import Work
from paceline.synthesis import Empirical, Workload

__all__ = ["FORMATS", "gain", "requests_of", "rows_of", "serving_page", "serving_trials"]

_FILE: Final = "sarathi_sharegpt8k_lengths.csv.zst"
_SHAREGPT_RATES: Final = (2.0, 2.5, 3.0)
_ABOVE: Final = (1.2, 1.4)
"""Times the artifact's highest rate that are offered, too."""

FORMATS: Final = {
    "requests/s": ".3g",
    "E2E mean (s)": ".1f",
    "E2E P99 (s)": ".0f",
    "TTFT mean (s)": ".3f",
    "TTFT P99 (s)": ".2f",
    "TPOT mean (ms)": ".1f",
    "TPOT P99 (ms)": ".1f",
    "preemptions": ",.0f",
    "loss (s)": ".3f",
    "migrations": ",.0f",
}
_MEASURES: Final = {
    "E2E mean (s)": ("E2E mean", 1.0),
    "E2E P99 (s)": ("E2E P99", 1.0),
    "TTFT mean (s)": ("TTFT mean", 1.0),
    "TTFT P99 (s)": ("TTFT P99", 1.0),
    "TPOT mean (ms)": ("TPOT mean", 1e3),
    "TPOT P99 (ms)": ("TPOT P99", 1e3),
    "preemptions": ("preemptions", 1.0),
    "loss (s)": ("loss", 1.0),
    "migrations": ("migrations", 1.0),
}
_SHOWN_S: Final = 10.0
"""The longest TTFT in the figure."""

_Key = tuple[str, float, str]


def requests_of(work: Work) -> int:
    """Return the requests of a trace; the artifact's in full."""
    return work.pick(10_000, 1_500)


def serving_trials(work: Work) -> dict[_Key, Trial]:
    """Return a trial of each trace, rate and system."""
    found: dict[_Key, Trial] = {}
    for name, rate, threshold, source in _offered(work):
        for system, policy in systems(threshold).items():
            found[name, rate, system] = Trial(trace=source, cluster=cluster(), policy=policy)
    return found


def _offered(work: Work) -> list[tuple[str, float, float, Source]]:
    """Return each trace at each rate, with the threshold of its migrations."""
    requests = requests_of(work)
    found: list[tuple[str, float, float, Source]] = []
    for name, of in WORKLOADS.items():
        least, most = of.rates
        for rate in (least, most, *(times * most for times in _ABOVE)):
            drawn = PowerLaws(prompt=of.prompt, output=of.output, rate=rate, requests=requests)
            found.append((name, rate, of.threshold, drawn))
    if work.quick:
        return [each for each in found if each[0] == "L-L"]
    file = None if work.data is None else work.data / _FILE
    if file is not None and file.is_file():
        lengths = Workload(name="ShareGPT", lengths=Empirical.from_csv(file), source=file.name)
        for rate in _SHAREGPT_RATES:
            found.append(("ShareGPT", rate, 3.0, Drawn(workload=lengths, rate=rate, requests=requests)))
    return found


def rows_of(served: Mapping[_Key, Trial], trials: Trials[dict[str, float]]) -> pl.DataFrame:
    """Return a row for each trial, with its measures."""
    outcomes = trials.of(served.values())
    rows = [
        {
            "trace": name,
            "requests/s": rate,
            "system": system,
            **{column: times * found[of] for column, (of, times) in _MEASURES.items()},
        }
        for (name, rate, system), found in zip(served, outcomes, strict=True)
    ]
    return pl.DataFrame(rows)


def gain(rows: pl.DataFrame, measure: str, over: str) -> pl.Series:
    """Return how many times as much a system has of a measure as Llumnix, for each trace and rate."""
    at = ["trace", "requests/s"]
    ours = rows.filter(pl.col("system") == "Llumnix").select(*at, pl.col(measure).alias("ours"))
    theirs = rows.filter(pl.col("system") == over).select(*at, pl.col(measure).alias("theirs"))
    joined = theirs.join(ours, on=at, maintain_order="left")
    return joined.select(pl.col("theirs") / pl.col("ours"))["theirs"]


def serving_page(rows: pl.DataFrame, work: Work) -> dict[str, Content]:
    """Return the tables, the figure and the facts of the serving experiment."""
    highest = {name: of.rates[1] for name, of in WORKLOADS.items()}
    above = {name: _ABOVE[0] * rate for name, rate in highest.items()} | {"ShareGPT": _SHAREGPT_RATES[-1]}
    return {
        "requests": f"{requests_of(work):,}",
        "first": f"{_ABOVE[0]:g}",
        "last": f"{_ABOVE[-1]:g}",
        "llumnix-highest": Table(_at(rows, highest), FORMATS),
        "llumnix-above": Table(_at(rows, above), FORMATS),
        "llumnix-gains": _facts(rows),
        "llumnix-ttft": _figure(rows),
    }


def _at(rows: pl.DataFrame, rates: Mapping[str, float]) -> pl.DataFrame:
    """Return the rows of each trace at one rate."""
    rate = pl.col("trace").replace_strict(rates, default=None, return_dtype=pl.Float64)
    return rows.filter((pl.col("requests/s") - rate).abs() < 1e-9)


def _facts(rows: pl.DataFrame) -> list[Fact]:
    """Return what Llumnix gains; drawn traces count at the artifact's rates, and at all rates in the note."""
    real, drawn = (rows.filter((pl.col("trace") == "ShareGPT") == other) for other in (True, False))
    limits = {name: of.rates[1] for name, of in WORKLOADS.items()}
    limit = pl.col("trace").replace_strict(limits, return_dtype=pl.Float64)
    own = drawn.filter(pl.col("requests/s") <= limit)
    facts = [
        _fact(stated, _most(own, stated), f"at all rates {_most(drawn, stated):.3g}")
        for stated in PAPER.table("generated").values()
    ]
    saved = f"at all rates {_saved(drawn):.3g}; in the artifact's own run 0.9998"
    facts.append(_fact(PAPER["preemption", "loss"], _saved(own), saved))
    if real.height:
        facts += [_fact(stated, _most(real, stated)) for stated in PAPER.table("real").values()]
    return facts


def _fact(stated: Stated, ours: float, note: str = "") -> Fact:
    return Fact.compare(stated, ours, "predicted", notes=(note,))


def _most(rows: pl.DataFrame, stated: Stated) -> float:
    """Return the gain that a number of the paper is of, the most over traces and rates."""
    return float(gain(rows, stated.more["measure"], stated.more["over"]).to_numpy().max())


def _saved(rows: pl.DataFrame) -> float:
    """Return the share of INFaaS++'s preemption loss that Llumnix saves, the mean over traces and rates."""
    return float((1 - 1 / gain(rows, "loss (s)", "INFaaS++")).to_numpy().mean())


def _figure(rows: pl.DataFrame) -> Figure:
    # Round robin leaves the picture, which would show nothing else.
    value = pl.col("TTFT P99 (s)").clip(0.0, _SHOWN_S)
    data = rows.select("trace", "system", "requests/s", value)
    return lines(data, x="requests/s", y="TTFT P99 (s)", by="system", panel="trace", columns=3)
