"""Attainment of objectives: jointly, bound by bound, over time, and were the bounds others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from paceline.report.replayed import Run

if TYPE_CHECKING:
    from paceline.objectives import SLO

__all__ = ["attainment_by_bound", "attainment_by_scale", "attainment_over_time"]

_COLUMN_OF: Final = {"ttft": "ttft", "tpot": "tpot", "e2e": "e2e", "itl": "max_itl"}

SCALES: Final = np.round(np.geomspace(0.1, 10, 61), 4)


def _scaled(slo: SLO, scale: float) -> SLO:
    return type(slo)(**{name: bound * scale for name, bound in slo.bounds().items()})


def attainment_by_bound(runs: tuple[Run, ...], slo: SLO) -> pl.DataFrame:
    """Return columns ``run``, ``bound``, ``limit_s`` (null for all together), ``attainment``, ``goodput``."""
    rows: list[tuple[str, str, float | None, float, float]] = []
    for run in runs:
        rows.append((run.name, "all together", None, run.result.attainment(slo), run.result.goodput(slo)))
        for name, bound in slo.bounds().items():
            alone = type(slo)(**{name: bound})
            rows.append((run.name, name, bound, run.result.attainment(alone), run.result.goodput(alone)))
    schema = {
        "run": pl.String(),
        "bound": pl.String(),
        "limit_s": pl.Float64(),
        "attainment": pl.Float64(),
        "goodput": pl.Float64(),
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def attainment_by_scale(runs: tuple[Run, ...], slo: SLO) -> pl.DataFrame:
    """Return columns ``run``, ``scale`` and ``attainment``: all bounds times one factor, from 0.1 to 10.

    A request meets the bounds from the factor on that is the largest of its latencies over their bounds.
    """
    frames = []
    for run in runs:
        finished = run.result.column("status") == "finished"
        worst = pl.select(
            pl.max_horizontal(
                *(run.result.column(_COLUMN_OF[name]) / bound for name, bound in slo.bounds().items())
            ).fill_null(0.0)
        ).to_series()
        needed = np.sort(worst.filter(finished).to_numpy())
        arrived = int((run.result.column("status") != "not_arrived").sum())
        met = np.searchsorted(needed, SCALES, side="right")
        share = met / arrived if arrived else np.full(len(SCALES), np.nan)
        frames.append(pl.DataFrame({"run": [run.name] * len(SCALES), "scale": SCALES, "attainment": share}))
    return pl.concat(frames)


def attainment_over_time(runs: tuple[Run, ...], slo: SLO, bins: int = 60) -> pl.DataFrame:
    """Return ``run``, ``time_s``, ``requests`` and ``attainment`` by arrival, up to the last."""
    frames = []
    for run in runs:
        arrived = run.result.column("status") != "not_arrived"
        arrivals = run.result.column("arrival").filter(arrived).to_numpy()
        edges = np.linspace(0.0, max(float(arrivals.max(initial=0.0)), 1e-9), bins + 1)
        met = run.result.met(slo).filter(arrived).to_numpy()
        total = np.histogram(arrivals, edges)[0]
        good = np.histogram(arrivals[met], edges)[0]
        share = np.where(total > 0, good / np.maximum(total, 1), np.nan)
        columns = {"time_s": edges[:-1], "requests": total, "attainment": share}
        frames.append(pl.DataFrame({"run": [run.name] * bins, **columns}).fill_nan(None))
    return pl.concat(frames)
