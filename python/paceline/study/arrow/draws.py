"""Rates over several draws of the trace that is always drawn."""

from __future__ import annotations

import numpy as np
import polars as pl

from paceline.comparing.student import mean_interval
from paceline.planning import capacity
from paceline.study.arrow.searches import TARGET, Searches
from paceline.study.arrow.systems import TITLES
from paceline.study.arrow.workloads import load
from paceline.study.model import Table
from paceline.study.pages import Content

__all__ = ["draws_page"]

_NAME = "burstgpt"
_DRAWS = 5
_OVER = ("tp8", "disaggregated", "replicas")


def draws_page(found: Searches) -> dict[str, Content]:
    """Return Arrow's rate over the baselines' for several draws of the BurstGPT-like trace.

    The intervals are Student's, at 95%.
    """
    if found.work.quick:
        return {"draws": None}
    rates = {system: [found.rate(_NAME, system)] for system in ("arrow", *_OVER)}
    how = found.settings[""]
    for number in range(1, _DRAWS):
        at = load(_NAME, found.work.data, None, number)
        for system, of_system in rates.items():
            own = found.rate(_NAME, system)
            one = capacity(
                at.trace,
                how.cluster(system),
                how.policy(system, at.slo),
                at.slo,
                TARGET,
                tolerance=0.05,
                workers=found.work.workers,
                between=(own / 8, 4 * own),
            )
            of_system.append(np.nan if one.rate is None else one.rate)
    rows = []
    for over in _OVER:
        ratios = np.array(rates["arrow"]) / np.array(rates[over])
        mean, low, high = mean_interval(ratios, 0.95)
        rows.append(
            {
                "Arrow over": TITLES[over],
                "mean of the draws": mean,
                "from": low,
                "to": high,
                "each": ", ".join(f"{ratio:.2f}" for ratio in ratios),
            }
        )
    formats = dict.fromkeys(("mean of the draws", "from", "to"), ".2f")
    return {"draws": Table(pl.DataFrame(rows), formats)}
