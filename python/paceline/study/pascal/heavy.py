"""Figure 16: half of Arena-Hard's requests replaced by problems with long reasoning and short answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from paceline.study.model import Page, Table
from paceline.study.pascal.ablations import distribution
from paceline.study.pascal.demand import stretched
from paceline.study.pascal.evaluation import tail_figure
from paceline.study.pascal.hardware import pascals_instance
from paceline.study.pascal.requests import medians, throughput, violations
from paceline.study.pascal.runs import LEVELS, PROMPTS, TIMES, Runs
from paceline.study.pascal.schedulers import Arguments
from paceline.study.pascal.tails import compared, extremes, tails, undemoted
from paceline.study.pascal.workloads import Chats, chats, half_replaced
from paceline.synthesis import Lognormal, Quantiles

__all__ = ["MIXES", "TITLE", "heavy_page", "mixed"]

TITLE: Final = "half Arena-Hard, half problems"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """A mix that differs from the study's own in its problems, or in PASCAL's demotion."""

    what: str
    problems: Chats
    arguments: Arguments = field(default_factory=dict)


_PROBLEMS: Final = chats("problem-solving")
assert isinstance(_PROBLEMS.answer_tokens, Quantiles)
_HALVED: Final = replace(
    _PROBLEMS,
    # Half of the study's own: median, cut and answers.
    reasoning_tokens=Lognormal(median=1088.5, sigma=1.0, high=8192),
    answer_tokens=Quantiles(tuple((p, max(1, count // 2)) for p, count in _PROBLEMS.answer_tokens.points)),
)
MIXES: Final = (
    Mix(what="as it is", problems=_PROBLEMS),
    Mix(what="problems half as long, at the same ratio", problems=_HALVED),
    Mix(what="PASCAL never demotes", problems=_PROBLEMS, arguments={"pascal": {"demote_above": 10**6}}),
)
"""The study's own mix first."""


def mixed(runs: Runs) -> pl.DataFrame:
    """Compare PASCAL on all mixes at the high load.

    Returns
    -------
    DataFrame
        A row each: medians over the seeds of the most that PASCAL's tail is below and above the baselines',
        and above them in bins below the threshold of demotion.
    """
    rows = []
    for mix in MIXES:
        each = []
        for seed in runs.seeds:
            asked = TIMES * PROMPTS["arena-hard"]
            trace = half_replaced(chats("arena-hard"), mix.problems, requests=asked, seed=seed)
            trace = stretched(trace, LEVELS["high"], pascals_instance())
            by_policy = {
                policy: tails(runs.replay(trace, policy, arguments=mix.arguments).requests)
                for policy in ("FCFS", "RR", "PASCAL")
            }
            found = {}
            for baseline in ("FCFS", "RR"):
                bins = compared(by_policy, "PASCAL", baseline)
                found[f"cut {baseline}"] = extremes(bins)["cut"]
                found[f"worse {baseline}"] = extremes(bins)["worse"]
                found[f"worse {baseline} below 5,000"] = extremes(undemoted(bins))["worse"]
            each.append(found)
        rows.append({"what": mix.what} | medians(each))
    return pl.DataFrame(rows)


def heavy_page(frames: dict[str, pl.DataFrame], mixes: pl.DataFrame | None) -> Page:
    """Return Figure 16 from the requests of FCFS, RR and PASCAL, and what `mixed` returns."""
    rows = [
        {
            "policy": policy,
            "P50 TTFT (s)": frame["ttft"].median(),
            "P99 TTFT (s)": frame["ttft"].quantile(0.99, interpolation="linear"),
            "violations": violations(frame),
            "tokens/s": throughput(frame),
        }
        for policy, frame in frames.items()
    ]
    return Page(
        name="reasoning-heavy",
        title="Long reasoning, short answers (Figure 16)",
        parts=(
            "Every request of Arena-Hard is one of the problems' with probability one half. The load is the "
            "high one, worked out for this mix.",
            distribution(
                "figure-16a",
                "Figure 16(a): distribution of TTFT",
                [(TITLE, *case) for case in frames.items()],
            ),
            tail_figure(
                "figure-16b",
                "Figure 16(b): tail TTFT by reasoning tokens",
                [(TITLE, *case) for case in frames.items()],
            ),
            Table(
                name="figure-16-table",
                caption="The mix under three policies",
                frame=pl.DataFrame(rows),
                formats={
                    "P50 TTFT (s)": ".1f",
                    "P99 TTFT (s)": ".1f",
                    "violations": ".2%",
                    "tokens/s": ".0f",
                },
            ),
            *(
                ()
                if mixes is None
                else (
                    Table(
                        name="figure-16-mixes",
                        caption="Where PASCAL's tail TTFT is shorter and longer than the baselines', at "
                        "most, with other problems; medians over the seeds",
                        frame=mixes,
                        formats=dict.fromkeys(mixes.columns[1:], ".0%"),
                    ),
                )
            ),
        ),
    )
