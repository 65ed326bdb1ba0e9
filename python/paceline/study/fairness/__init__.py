"""Fair shares of one instance, side by side: FCFS, round robin, least service, VTC and DLPM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from paceline import policies
from paceline.policy import Policy, PrefixCache, Scheduler
from paceline.replaying import replay
from paceline.study.charts import bars
from paceline.study.fairness.measures import OUTPUT_WEIGHT, difference, jain
from paceline.study.fairness.tenants import CLUSTER, SPAN_S, drawn
from paceline.study.model import Study, Table
from paceline.study.pages import Content, pages
from paceline.study.work import Work

__all__ = ["POLICIES", "run"]

_SLO_S: Final = 5.0
"""The bound on the time to the first token."""


def _cached(policy: Policy) -> Policy:
    """Return a policy with a prefix cache, as all have in this study."""
    scheduler = policy.scheduler
    assert isinstance(scheduler, Scheduler)
    return replace(policy, scheduler=replace(scheduler, prefix_cache=PrefixCache()))


POLICIES: Final[Mapping[str, Policy]] = {
    "FCFS": _cached(policies.vllm()),
    "round robin": _cached(policies.flow_control(fairness="round_robin", bands=False)),
    "least service": _cached(policies.flow_control(fairness="least_service", bands=False)),
    "VTC": _cached(policies.vtc()),
    "DLPM": policies.dlpm(),
}
"""The policies with their defaults, but for the prefix cache."""

_FORMATS: Final = {
    "service difference": ",.0f",
    "Jain, service": ".3f",
    "Jain, waits": ".3f",
    "TTFT P50 (s)": ".2f",
    "TTFT P99 (s)": ".1f",
    "late": ".1%",
    "output tokens/s": ",.0f",
    "cached": ".1%",
}


def run(work: Work) -> Study:
    """Run the study.

    Parameters
    ----------
    work
        ``quick`` draws one seed of two minutes.

    Returns
    -------
    Study
        Its page.
    """
    seeds, share = work.pick(5, 1), 0.4 if work.quick else 1.0
    rows: list[dict[str, object]] = []
    tenants: list[pl.DataFrame] = []
    done, total = 0, seeds * len(POLICIES)
    for seed in range(seeds):
        trace = drawn(seed, share)
        for name, policy in POLICIES.items():
            requests = replay(trace, CLUSTER, policy).requests
            rows.append({"policy": name, **_measured(requests, SPAN_S * share)})
            tenants.append(_by_tenant(requests).with_columns(pl.lit(name).alias("policy")))
            done += 1
            if work.report is not None:
                work.report("replays", done, total)
    columns = [name for name in rows[0] if name != "policy"]
    means = pl.DataFrame(rows).group_by("policy", maintain_order=True).agg(pl.col(*columns).mean())
    by_tenant = (
        pl.concat(tenants)
        .group_by("policy", "tenant", maintain_order=True)
        .agg(pl.col("TTFT P50 (s)", "TTFT P99 (s)", "late").mean())
        .select("policy", "tenant", "TTFT P50 (s)", "TTFT P99 (s)", "late")
    )
    contents: dict[str, dict[str, Content]] = {
        "tenants": {
            "seeds": str(seeds),
            "minutes": f"{SPAN_S * share / 60:g}",
            "weight": f"{OUTPUT_WEIGHT:g}",
            "bound": f"{_SLO_S:g}",
            "fairness": Table(means, _FORMATS),
            "fairness-tenants": Table(by_tenant, _FORMATS),
            "fairness-late": bars(by_tenant, x="tenant", y="late", by="policy", size=(7.0, 3.4)),
        }
    }
    return Study(
        name="fairness",
        title="Fair shares of one instance",
        source="llm-d-router issue 1182; VTC (arXiv 2401.00588), DLPM (arXiv 2501.14312)",
        pages=pages(__package__, contents),
        quick=work.quick,
    )


def _measured(requests: pl.DataFrame, until: float) -> dict[str, float]:
    """Return the measures of one replay; services are of what was served in time."""
    in_time = requests.filter(pl.col("finish") <= until)
    weighted = pl.col("prompt_tokens") + OUTPUT_WEIGHT * pl.col("output_tokens")
    served = in_time.group_by("tenant").agg(weighted.sum().alias("service"))
    wait = (pl.col("scheduled") - pl.col("arrival")).mean().alias("wait")
    waits = requests.group_by("tenant").agg(wait)
    late = (requests["ttft"].fill_null(np.inf) > _SLO_S).to_numpy()
    cached, prompt = (
        requests[name].to_numpy().astype(np.float64) for name in ("cached_tokens", "prompt_tokens")
    )
    return {
        "service difference": difference(requests, until),
        "Jain, service": jain(served["service"].to_numpy().astype(np.float64)),
        "Jain, waits": jain(waits["wait"].to_numpy()),
        "late": float(late.mean()),
        "output tokens/s": float(in_time["output_tokens"].sum()) / until,
        "cached": float(cached.sum() / prompt.sum()),
    }


def _by_tenant(requests: pl.DataFrame) -> pl.DataFrame:
    ttft = pl.col("ttft")
    return (
        requests.group_by("tenant")
        .agg(
            ttft.quantile(0.5, "linear").alias("TTFT P50 (s)"),
            ttft.quantile(0.99, "linear").alias("TTFT P99 (s)"),
            (ttft.fill_null(np.inf) > _SLO_S).mean().alias("late"),
        )
        .sort("tenant")
    )
