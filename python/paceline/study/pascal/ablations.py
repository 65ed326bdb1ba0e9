"""Figures 13 and 15: what migration is worth, and what its adaptivity."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from paceline.study.model import Figure, Page, Table
from paceline.study.pascal.drawing import bars, curves
from paceline.study.pascal.evaluation import Frames, tail_figure
from paceline.study.pascal.requests import number, p99, violations

__all__ = ["adaptivity_page", "blocking_p99", "distribution", "end_to_end", "migration_page"]

_TITLES = ("PASCAL(NoMigration)", "PASCAL")


def migration_page(frames: Frames, workload: str) -> Page:
    """Return Figure 13: PASCAL with and without migration.

    Parameters
    ----------
    frames
        Of the workload, at all levels, PASCAL and PASCAL(NoMigration).
    workload
        Its name.
    """
    high = {policy: frames[workload, "high", policy] for policy in _TITLES}
    by_level = _by_level(frames, workload, _TITLES)
    return Page(
        name="migration",
        title="Without migration (Figure 13)",
        parts=(
            "PASCAL(NoMigration) keeps a request where Algorithm 1 put it. Blocking latency is from the end "
            "of reasoning to the start of the step that yields the first answer token, transfers aside.",
            tail_figure(
                "figure-13a",
                "Figure 13(a): tail TTFT, high load",
                [("TTFT", policy, frame) for policy, frame in high.items()],
            ),
            tail_figure(
                "figure-13b",
                "Figure 13(b): tail latency of the reasoning phase, high load",
                [("reasoning phase", policy, frame) for policy, frame in high.items()],
                of="reasoning",
            ),
            bars(
                "figure-13c",
                "Figure 13(c): P99 blocking latency at the phase change",
                by_level,
                x="load",
                y="P99 blocking (s)",
                by="policy",
                panel="what",
            ),
            bars(
                "figure-13d",
                "Figure 13(d): SLO violations",
                by_level,
                x="load",
                y="violations",
                by="policy",
                panel="what",
            ),
            Table(
                name="figure-13-table",
                caption="PASCAL with and without migration",
                frame=by_level.drop("what"),
                formats=_FORMATS,
            ),
        ),
    )


def adaptivity_page(frames: Frames, workload: str) -> Page:
    """Return Figure 15: PASCAL's migration adaptive, and always.

    Parameters
    ----------
    frames
        Of the workload, at all levels, PASCAL and PASCAL(NonAdaptive).
    workload
        Its name.
    """
    policies = ("PASCAL(NonAdaptive)", "PASCAL")
    by_level = _by_level(frames, workload, policies)
    latency = pl.DataFrame(
        [
            {"what": "high load", "policy": policy, "statistic": name, "end to end (s)": value}
            for policy in policies
            for name, value in end_to_end(frames[workload, "high", policy]).items()
        ]
    )
    return Page(
        name="adaptivity",
        title="Without adaptivity (Figure 15)",
        parts=(
            "PASCAL(NonAdaptive) always moves a request to the instance that Algorithm 2 names, whether or "
            "not its memory has room there and here.",
            distribution(
                "figure-15a",
                "Figure 15(a): distribution of TTFT, high load",
                [("high load", policy, frames[workload, "high", policy]) for policy in policies],
            ),
            bars(
                "figure-15b",
                "Figure 15(b): SLO violations",
                by_level,
                x="load",
                y="violations",
                by="policy",
                panel="what",
            ),
            bars(
                "figure-15c",
                "Figure 15(c): end-to-end latency, high load",
                latency,
                x="statistic",
                y="end to end (s)",
                by="policy",
                panel="what",
            ),
            Table(
                name="figure-15-table",
                caption="PASCAL's migration adaptive, and always",
                frame=by_level.drop("what"),
                formats=_FORMATS,
            ),
        ),
    )


def end_to_end(requests: pl.DataFrame) -> dict[str, float]:
    """Return mean, median and tails of the latency from arrival to completion."""
    latency = requests["e2e"]
    found = {"mean": latency.mean(), "P50": latency.median()}
    found |= {f"P{round(100 * q)}": latency.quantile(q, interpolation="linear") for q in (0.90, 0.95, 0.99)}
    return {name: number(value) for name, value in found.items()}


def blocking_p99(requests: pl.DataFrame) -> float:
    """Return the P99 of the wait between the phases, over requests that change phase."""
    return p99(requests["blocking"])


def distribution(name: str, caption: str, cases: list[tuple[str, str, pl.DataFrame]]) -> Figure:
    """Make a figure of the share of requests whose TTFT is at most so long."""
    shares = [step / 200 for step in range(201)]
    data = pl.concat(
        pl.DataFrame(
            {
                "panel": panel,
                "policy": policy,
                "TTFT (s)": [
                    frame["ttft"].drop_nulls().quantile(share, interpolation="linear") for share in shares
                ],
                "share of requests": shares,
            }
        )
        for panel, policy, frame in cases
    )
    return curves(name, caption, data, x="TTFT (s)", y="share of requests", by="policy", panel="panel")


_FORMATS: Mapping[str, str] = {
    "violations": ".2%",
    "P99 blocking (s)": ".2f",
    "migrated": ".1%",
    "P50 TTFT (s)": ".1f",
    "P99 TTFT (s)": ".1f",
    "P50 e2e (s)": ".1f",
    "P99 e2e (s)": ".1f",
}


def _by_level(frames: Frames, workload: str, policies: tuple[str, ...]) -> pl.DataFrame:
    rows = []
    for (name, level, policy), frame in frames.items():
        if name != workload or policy not in policies:
            continue
        latency = end_to_end(frame)
        rows.append(
            {
                "what": "AlpacaEval2.0",
                "load": level,
                "policy": policy,
                "violations": violations(frame),
                "P99 blocking (s)": blocking_p99(frame),
                "migrated": number((frame["migrations"] > 0).mean()),
                "P50 TTFT (s)": number(frame["ttft"].median()),
                "P99 TTFT (s)": p99(frame["ttft"]),
                "P50 e2e (s)": latency["P50"],
                "P99 e2e (s)": latency["P99"],
            }
        )
    return pl.DataFrame(rows)
