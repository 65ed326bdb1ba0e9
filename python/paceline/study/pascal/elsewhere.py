"""Workloads that the paper does not use: where migration and adaptivity hurt, and which requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final

import polars as pl

from paceline.study.model import Table
from paceline.study.pages import Content
from paceline.study.pascal.comparison import CAPTION, FORMATS, summary
from paceline.study.pascal.production import TITLE
from paceline.study.pascal.requests import number, p99
from paceline.study.pascal.runs import Runs, Setting, asked
from paceline.study.pascal.schedulers import POLICIES
from paceline.study.pascal.workloads import Asked, Served, chats

__all__ = ["Elsewhere", "fates"]

_LONG: Final = 5000
_PASCALS: Final = ("PASCAL(NoMigration)", "PASCAL", "PASCAL(NonAdaptive)")


class Elsewhere:
    """The workloads at several loads, as they are and with a PASCAL that never demotes.

    Parameters
    ----------
    runs
        The study's.
    served
        The production workload, of which there is one trace; or None.
    """

    def __init__(self, runs: Runs, served: Served | None) -> None:
        requests = asked("arena-hard").requests
        traces: dict[str, Asked | Served] = {
            "Arena-Hard": asked("arena-hard"),
            "half Arena-Hard, half problems": asked("heavy"),
            "problems": Asked(workload=chats("problem-solving"), requests=requests),
        }
        if served is not None:
            traces[TITLE] = served
        self._runs = runs
        self._settings = {
            f"{name}, load {load:g}": Setting(trace=trace, load=load)
            for name, trace in traces.items()
            for load in (1.0, 1.1, 1.25)
        }
        runs.announce(self._settings.values(), POLICIES)
        runs.announce(map(_undemoted, self._settings.values()), _PASCALS)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """A row for each workload and load: ``what``, and the medians of its `summary`."""
        return self._runs.compared(self._settings, POLICIES, summary)

    def page(self) -> dict[str, Content]:
        """Return the rows, and what becomes of requests that stay and of requests that migrate."""
        why = pl.DataFrame(
            [
                {"what": what, **fates(self._pooled(setting), self._pooled(_undemoted(setting)))}
                for what, setting in self._settings.items()
            ]
        )
        formats = {name: ".0f" if name.startswith("long") else ".2%" for name in why.columns[1:]}
        return {
            "columns": CAPTION,
            "elsewhere-table": Table(self.rows, FORMATS),
            "elsewhere-why": Table(why, formats | {"stay": ".0%"}),
        }

    def _pooled(self, setting: Setting) -> dict[str, pl.DataFrame]:
        """Return the requests of all seeds, by policy."""
        by_seed = [self._runs.frames(setting, _PASCALS, seed) for seed in self._runs.seeds_of(setting)]
        return {policy: pl.concat([frames[policy] for frames in by_seed]) for policy in _PASCALS}


def _undemoted(setting: Setting) -> Setting:
    return replace(setting, arguments={"pascal": {"demote_above": 10**6}})


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


def _short(policy: str) -> str:
    return policy.removeprefix("PASCAL(").removesuffix(")")
