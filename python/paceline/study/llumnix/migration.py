"""What the gain of migration depends on: its period, threshold and protocol, and the engine's host time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from paceline.deployment import Cluster
from paceline.policy import Handover, Policy
from paceline.study.llumnix.serving import FORMATS, requests_of
from paceline.study.llumnix.setting import PERIOD_S, WORKLOADS, PowerLaws, cluster, llumnix, systems
from paceline.study.model import Table
from paceline.study.pages import Content
from paceline.study.trials import Trial, Trials
from paceline.study.work import Work

__all__ = ["migration_page"]

_PERIODS: Final = (0.05, 0.2, 0.5, 2.0)
_THRESHOLDS: Final = (-3.0, 10.0)
_HOST_S: Final = (4.2e-4, 2e-3)
"""Seconds of the host in each step for each request: as fitted to vLLM of 2023 on A100s, and assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variation:
    """One change of the setting."""

    change: str
    trace: str
    times: float
    policy: Policy
    cluster: Cluster

    def trial(self, requests: int) -> Trial:
        """Return its trial, at so many times the artifact's highest rate."""
        of = WORKLOADS[self.trace]
        source = PowerLaws(
            prompt=of.prompt, output=of.output, rate=self.times * of.rates[1], requests=requests
        )
        return Trial(trace=source, cluster=self.cluster, policy=self.policy)


def _variations() -> list[_Variation]:
    found = []
    for trace in ("L-L", "L-S"):
        threshold = WORKLOADS[trace].threshold
        apart = systems(threshold)["INFaaS++"]
        changes = {"no migration": apart}
        changes |= {f"every {one:g} s": llumnix(threshold, period_s=one) for one in _PERIODS}
        changes |= {f"below {one:g} steps": llumnix(one) for one in _THRESHOLDS}
        changes["blocks held while it waits"] = replace(llumnix(threshold), handover=Handover())
        found += [
            _Variation(change=change, trace=trace, times=1.2, policy=policy, cluster=cluster())
            for change, policy in changes.items()
        ]
    for host in _HOST_S:
        of = systems(WORKLOADS["S-S"].threshold)
        found += [
            _Variation(
                change=f"{1e3 * host:g} ms a request, {system}",
                trace="S-S",
                times=1.0,
                policy=of[system],
                cluster=cluster(request_s=host),
            )
            for system in ("INFaaS++", "Llumnix")
        ]
    return found


def migration_page(trials: Trials[dict[str, float]], work: Work) -> dict[str, Content]:
    """Return the variations; none in a quick run."""
    words: dict[str, Content] = {"period": f"{PERIOD_S:g}"}
    if work.quick:
        return {**words, "llumnix-variations": None}
    variations = _variations()
    outcomes = trials.of(each.trial(requests_of(work)) for each in variations)
    rows = [
        {
            "trace": each.trace,
            "requests/s": each.times * WORKLOADS[each.trace].rates[1],
            "change": each.change,
            "E2E mean (s)": found["E2E mean"],
            "TTFT mean (s)": found["TTFT mean"],
            "TTFT P99 (s)": found["TTFT P99"],
            "TPOT P99 (ms)": 1e3 * found["TPOT P99"],
            "preemptions": found["preemptions"],
            "loss (s)": found["loss"],
            "migrations": found["migrations"],
        }
        for each, found in zip(variations, outcomes, strict=True)
    ]
    return {**words, "llumnix-variations": Table(pl.DataFrame(rows), FORMATS)}
