"""Figure 16: half of Arena-Hard's requests replaced by problems with long reasoning and short answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import polars as pl

from paceline.study.model import Table
from paceline.study.pages import Content
from paceline.study.pascal.ablations import distribution
from paceline.study.pascal.evaluation import tail_figure
from paceline.study.pascal.requests import FORMATS, described
from paceline.study.pascal.runs import BASE, Runs, Setting, asked
from paceline.study.pascal.tails import compared, extremes, tails, undemoted
from paceline.study.pascal.workloads import chats
from paceline.synthesis import Lognormal, Quantiles

__all__ = ["MIXES", "TITLE", "heavy_page", "mixed"]

TITLE: Final = "half Arena-Hard, half problems"

_PROBLEMS: Final = chats("problem-solving")
assert isinstance(_PROBLEMS.answer_tokens, Quantiles)
_HALVED: Final = replace(
    _PROBLEMS,
    # Half of the study's own: median, cut and answers.
    reasoning_tokens=Lognormal(median=1088.5, sigma=1.0, high=8192),
    answer_tokens=Quantiles(tuple((p, max(1, count // 2)) for p, count in _PROBLEMS.answer_tokens.points)),
)
_OWN: Final = Setting(trace=asked("heavy"))
MIXES: Final = {
    "as it is": _OWN,
    "problems half as long, at the same ratio": replace(_OWN, trace=replace(asked("heavy"), half=_HALVED)),
    "PASCAL never demotes": replace(_OWN, arguments={"pascal": {"demote_above": 10**6}}),
}
"""Mixes that differ in the problems or in PASCAL's demotion, the study's own first."""


def mixed(frames: Mapping[str, pl.DataFrame]) -> dict[str, float]:
    """Return how far PASCAL's tail is below and above the baselines' at most.

    Parameters
    ----------
    frames
        Requests of FCFS, RR and PASCAL.

    Returns
    -------
    dict
        ``cut`` and ``worse`` against each, and ``worse`` in the bins below the threshold of demotion.
    """
    by_policy = {policy: tails(frame) for policy, frame in frames.items()}
    found = {}
    for baseline in ("FCFS", "RR"):
        bins = compared(by_policy, "PASCAL", baseline)
        found[f"cut {baseline}"] = extremes(bins)["cut"]
        found[f"worse {baseline}"] = extremes(bins)["worse"]
        found[f"worse {baseline} below 5,000"] = extremes(undemoted(bins))["worse"]
    return found


def heavy_page(runs: Runs, mixes: pl.DataFrame | None) -> dict[str, Content]:
    """Return Figure 16, and the rows of all `MIXES`; a quick run has none."""
    frames = runs.frames(Setting(trace=asked("heavy")), BASE)
    columns = ("P50 TTFT (s)", "P99 TTFT (s)", "violations", "tokens/s")
    rows = [{"policy": policy, **described(frame, *columns)} for policy, frame in frames.items()]
    cases = [(TITLE, policy, frame) for policy, frame in frames.items()]
    return {
        "figure-16a": distribution(cases),
        "figure-16b": tail_figure(cases),
        "figure-16-table": Table(pl.DataFrame(rows), FORMATS),
        "figure-16-mixes": None if mixes is None else Table(mixes, dict.fromkeys(mixes.columns[1:], ".0%")),
    }
