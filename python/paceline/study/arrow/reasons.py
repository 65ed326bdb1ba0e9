"""What bounds each system, and what Arrow's flips do."""

from __future__ import annotations

from typing import Final

import polars as pl

from paceline.study.arrow.searches import Searches
from paceline.study.arrow.systems import ABLATIONS, SYSTEMS, TITLES
from paceline.study.arrow.workloads import WORKLOADS
from paceline.study.model import Table
from paceline.study.pages import Content

__all__ = ["reasons_page"]

_ABOVE: Final = 1.2
"""Times the sustained rate, at which it is seen which objective is missed."""


def reasons_page(found: Searches) -> dict[str, Content]:
    """Return which objective is missed above the sustained rate, and flips and pools at it."""
    return {
        "bounds": Table(pl.DataFrame(_bounds(found)), dict.fromkeys(("TTFT", "TPOT", "KV at most"), ".0%")),
        "flips": Table(pl.DataFrame(_flips(found)), {"flips": ".0f", "mean decode instances": ".1f"}),
        "above": f"{_ABOVE:g}",
    }


def _bounds(found: Searches) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in WORKLOADS:
        slo = found.loads[name].slo
        for system in dict.fromkeys((*SYSTEMS, *ABLATIONS)):
            result = found.replayed(name, system, _ABOVE * found.rate(name, system))
            times, stats = result.requests, result.stats.instances
            rows.append(
                {
                    "trace": found.loads[name].title,
                    "system": TITLES[system],
                    "TTFT": (times["ttft"] > slo.ttft).mean(),
                    "TPOT": (times["tpot"].fill_null(0.0) > slo.tpot).mean(),
                    "KV at most": max(each.peak_blocks / each.blocks for each in stats),
                }
            )
    return rows


def _flips(found: Searches) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in WORKLOADS:
        for system in ("arrow", "xllm"):
            result = found.replayed(name, system, found.rate(name, system))
            # An instance that leaves a pool joins the other when a condition holds: that is no decision.
            decided = result.flips.filter(~pl.col("cause").is_in(["condition", "delay"]))
            roles = result.roles.with_columns(time=pl.col("to_s") - pl.col("from_s"))
            decode = float(roles.filter(pl.col("role").str.ends_with("decode"))["time"].sum())
            rows.append(
                {
                    "trace": found.loads[name].title,
                    "policy": TITLES[system],
                    "flips": decided.height,
                    "joins after a drain": result.flips.height - decided.height,
                    "mean decode instances": 8 * decode / float(roles["time"].sum()),
                }
            )
    return rows
