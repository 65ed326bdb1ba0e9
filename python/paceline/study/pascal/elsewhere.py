"""Workloads that the paper does not use: where migration and adaptivity hurt, and which requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

from paceline.study.model import Page, Table
from paceline.study.pascal.comparison import CAPTION, FORMATS, summary
from paceline.study.pascal.demand import stretched
from paceline.study.pascal.hardware import pascals_instance
from paceline.study.pascal.requests import medians, number, p99
from paceline.study.pascal.runs import PROMPTS, TIMES, Runs
from paceline.study.pascal.schedulers import POLICIES, Arguments
from paceline.study.pascal.workloads import chats, drawn, half_replaced
from paceline.trace import Trace

__all__ = ["LOADS", "cases", "elsewhere", "elsewhere_page", "fates", "planned"]

LOADS: Final = (1.0, 1.1, 1.25)
_LONG: Final = 5000
_UNDEMOTED: Final[Arguments] = {"pascal": {"demote_above": 10**6}}
_PASCALS: Final = ("PASCAL(NoMigration)", "PASCAL", "PASCAL(NonAdaptive)")


def cases(runs: Runs, served: Trace | None) -> dict[str, list[Trace]]:
    """Return the workloads, a trace for each seed; the production workload has one.

    Parameters
    ----------
    runs
        Whose seeds are taken.
    served
        The production workload, or None.
    """
    asked = TIMES * PROMPTS["arena-hard"]
    arena, problems = chats("arena-hard"), chats("problem-solving")
    draws: dict[str, Callable[[int], Trace]] = {
        "Arena-Hard": lambda seed: drawn(arena, requests=asked, seed=seed),
        "half Arena-Hard, half problems": lambda seed: half_replaced(
            arena, problems, requests=asked, seed=seed
        ),
        "problems": lambda seed: drawn(problems, requests=asked, seed=seed),
    }
    found = {name: [draw(seed) for seed in runs.seeds] for name, draw in draws.items()}
    return found | ({} if served is None else {"DeepSeek-R1 in production": [served]})


def planned(seeds: int, served: Trace | None) -> int:
    """Return how many requests `elsewhere` will replay."""
    drawn_ones = 3 * seeds * TIMES * PROMPTS["arena-hard"]
    requests = drawn_ones + (0 if served is None else len(served))
    return len(LOADS) * (len(POLICIES) + len(_PASCALS)) * requests


def elsewhere(runs: Runs, served: Trace | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Run all workloads at all `LOADS`.

    Returns
    -------
    DataFrame
        A row each: ``what``, and the medians of its `comparison.summary` over the seeds.
    DataFrame
        A row each: ``what``, and its `fates`, over the requests of all seeds.
    """
    rows, why = [], []
    for name, traces in cases(runs, served).items():
        for load in LOADS:
            loaded = [stretched(trace, load, pascals_instance()) for trace in traces]
            frames = [
                {policy: runs.replay(trace, policy).requests for policy in POLICIES} for trace in loaded
            ]
            undemoted = [
                {policy: runs.replay(trace, policy, arguments=_UNDEMOTED).requests for policy in _PASCALS}
                for trace in loaded
            ]
            what = {"what": f"{name}, load {load:g}"}
            rows.append(what | medians([summary(each) for each in frames]))
            pooled, other = (
                {policy: pl.concat([each[policy] for each in runs_of]) for policy in _PASCALS}
                for runs_of in (frames, undemoted)
            )
            why.append(what | fates(pooled, other))
    return pl.DataFrame(rows), pl.DataFrame(why)


def fates(frames: Mapping[str, pl.DataFrame], undemoted: Mapping[str, pl.DataFrame]) -> dict[str, float]:
    """Return what becomes of requests that PASCAL keeps in place and of those that it migrates.

    Parameters
    ----------
    frames
        Requests of PASCAL and its variants, row by row the same ones, all finished.
    undemoted
        The same where PASCAL never demotes.

    Returns
    -------
    dict
        ``stay``: share that PASCAL keeps in place. Violations of these under PASCAL and under NonAdaptive,
        which migrates them too; violations of the others under PASCAL and under NoMigration. P99 TTFT in
        seconds of requests that reason for more than 5,000 tokens, with migration never, adaptive and always,
        then the same without demotion.
    """
    stay = frames["PASCAL"]["migrations"] == 0
    found = {"stay": number(stay.mean())}
    for policy in ("PASCAL", "PASCAL(NonAdaptive)"):
        found[f"stay: {_short(policy)}"] = number(frames[policy].filter(stay)["violated"].mean())
    for policy in ("PASCAL", "PASCAL(NoMigration)"):
        found[f"move: {_short(policy)}"] = number(frames[policy].filter(~stay)["violated"].mean())
    for prefix, by_policy in (("long", frames), ("long, no demotion", undemoted)):
        for policy in _PASCALS:
            long = by_policy[policy].filter(pl.col("reasoning_tokens") > _LONG)
            found[f"{prefix}: {_short(policy)}"] = p99(long["ttft"])
    return found


def elsewhere_page(rows: pl.DataFrame, why: pl.DataFrame) -> Page:
    """Return the page from what `elsewhere` returns."""
    formats = {name: ".0f" if name.startswith("long") else ".2%" for name in why.columns[1:]}
    return Page(
        name="elsewhere",
        title="Where migration and adaptivity hurt",
        parts=(
            "Workloads and loads that the paper does not use, by the same settings. Medians over the seeds; "
            "the production workload has one.",
            Table(name="elsewhere-table", caption=CAPTION, frame=rows, formats=FORMATS),
            Table(
                name="elsewhere-why",
                caption="SLO violations of the requests that PASCAL keeps in place and of those that it "
                "migrates, beside the same requests' under the variant that does the other thing; and P99 "
                "TTFT (s) of requests with more than 5,000 reasoning tokens, with and without demotion",
                frame=why,
                formats=formats | {"stay": ".0%"},
            ),
        ),
    )


def _short(policy: str) -> str:
    return policy.removeprefix("PASCAL(").removesuffix(")")
