"""The rates that designs serve within the objectives, beside the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from paceline.study.charts import lines
from paceline.study.model import Fact, Figure, Table
from paceline.study.pages import Content
from paceline.study.paper import Stated
from paceline.study.splitwise.designs import (
    ISO_COST,
    ISO_POWER,
    MACHINES,
    PAPER,
    READINGS,
    Design,
    Reading,
    cost_of,
    pools_of,
)
from paceline.study.splitwise.searches import BOUNDS, Case, Searches

__all__ = ["changes_page", "machines_page", "throughput_page"]

_PLAIN: Final[Reading] = "splitwise-sim"
_CONTEXT: Final = 576
"""Tokens of context of each request in the measured decode steps: 512, and half of 128."""
_FORMATS: Final = {
    "power": ",.0f",
    "cost": ".0f",
    "measured": ".1f",
    "line": ".1f",
    "splitwise-sim": ".1f",
    **{f"requests/s, {reading}": ".0f" for reading in READINGS},
}
_RATES: Final = (20.0, 60.0, 100.0, 140.0, 180.0)
"""The rates of the figure."""
_SPLITS: Final = {"Splitwise-AA": (15, 25, 35), "Splitwise-HH": (10, 15, 20), "Splitwise-HA": (10, 15, 20)}
"""Prompt machines of the pools that are tried anew."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A design under a budget."""

    budget: str
    trace: str
    design: Design

    def case(self, reading: Reading) -> Case:
        return Case(self.trace, self.design, reading)


def machines_page() -> dict[str, Content]:
    """Return the times of steps: measured, by the line, and as splitwise-sim has decodes."""
    rows: list[dict[str, object]] = []
    for name in ("A100", "H100"):
        of, line = MACHINES[name], cost_of(name)
        for tokens, seconds in of.prompt_s.items():
            ours = line.step_s + line.token_s * tokens
            rows.append(_step(name, f"a prompt of {tokens:,}", seconds, ours, None))
        for requests, seconds in of.decode_s.items():
            each = line.token_s + line.kv_token_s * _CONTEXT
            ours = line.step_s + each * requests
            rows.append(_step(name, f"decodes of {requests}", seconds, ours, of.decode_s[1]))
    return {"splitwise-steps": Table(pl.DataFrame(rows), _FORMATS)}


def _step(machine: str, step: str, seconds: float, ours: float, flat: float | None) -> dict[str, object]:
    return {
        "machine": machine,
        "step": f"{step} (ms)",
        "measured": 1e3 * seconds,
        "line": 1e3 * ours,
        "splitwise-sim": None if flat is None else 1e3 * flat,
    }


def throughput_page(searches: Searches) -> dict[str, Content]:
    """Return the rates of all designs, the facts, and the slowdowns over rates."""
    rows = [
        _Row("power", trace, design) for trace, designs in ISO_POWER.items() for design in designs.values()
    ]
    if searches.work.quick:
        rows = rows[:3]
    else:
        rows += [_Row("cost", "conversation", design) for design in ISO_COST.values()]
    found = searches.highest([row.case(reading) for row in rows for reading in READINGS])
    table = pl.DataFrame(
        {
            "same": row.budget,
            "trace": row.trace,
            "design": row.design.name,
            "pools": row.design.pools,
            "power": row.design.total("power"),
            "cost": row.design.total("cost"),
            **{f"requests/s, {reading}": found[row.case(reading)] for reading in READINGS},
        }
        for row in rows
    )
    return {
        "grid": f"{searches.grid:g}",
        "minutes": f"{searches.span_s / 60:g}",
        "splitwise-rates": Table(table, _FORMATS),
        "splitwise-claims": None if searches.work.quick else _facts(table),
        "splitwise-slowdowns": None if searches.work.quick else _figure(searches),
    }


def _facts(table: pl.DataFrame) -> list[Fact]:
    return [
        Fact.compare(
            stated,
            _times(table, stated, _PLAIN),
            "predicted",
            notes=(f"decodes as measured: {_times(table, stated, 'measured'):.2f}",),
        )
        for part in ("abstract", "section-6")
        for stated in PAPER.table(part).values()
    ]


def _times(table: pl.DataFrame, stated: Stated, reading: Reading) -> float:
    """Return the rate of a design over that of another: the most over traces, if none is named."""
    of, rate = stated.more, f"requests/s, {reading}"
    rows = table.filter(pl.col("same") == of["budget"])
    if of["trace"]:
        rows = rows.filter(pl.col("trace") == of["trace"])
    ours, theirs = (
        rows.filter(pl.col("design") == of[name]).select("trace", rate) for name in ("design", "over")
    )
    joined = ours.join(theirs, on="trace", suffix=" of the other")
    return float((joined[rate] / joined[f"{rate} of the other"]).to_numpy().max())


def _figure(searches: Searches) -> Figure:
    designs = ISO_POWER["conversation"].values()
    points = [(Case("conversation", design, _PLAIN), rate) for design in designs for rate in _RATES]
    found = searches.at(points)
    data = pl.DataFrame(
        {
            "design": case.design.name,
            "of": f"P90 {name}, at most {BOUNDS[name][90]:g}",
            "requests/s": rate,
            "slowdown": min(slowdowns[f"{name} P90"], 4.0),
        }
        for name in BOUNDS
        for (case, rate), slowdowns in zip(points, found, strict=True)
    )
    return lines(data, x="requests/s", y="slowdown", by="design", panel="of", columns=3)


def changes_page(searches: Searches) -> dict[str, Content]:
    """Return other pools: the code's for conversations, and pools sized for decodes as measured."""
    if searches.work.quick:
        return {"splitwise-setback": None, "splitwise-splits": None}
    return {"splitwise-setback": _setback(searches), "splitwise-splits": Table(_splits(searches), _FORMATS)}


def _setback(searches: Searches) -> list[Fact]:
    own, other = (
        Case("conversation", ISO_POWER[trace]["Splitwise-HA"], _PLAIN) for trace in ("conversation", "code")
    )
    found = searches.highest([own, other])
    return [Fact.compare(PAPER["setback", "ha"], found[other] / found[own], "predicted")]


def _splits(searches: Searches) -> pl.DataFrame:
    """Return the rates of pools of the same power, with decodes as measured."""
    designs = [pools_of(name, prompts) for name, several in _SPLITS.items() for prompts in several]
    cases = {design: Case("conversation", design, "measured") for design in designs}
    found = searches.highest(list(cases.values()))
    return pl.DataFrame(_split(design, found[case]) for design, case in cases.items())


def _split(design: Design, rate: float) -> dict[str, object]:
    return {
        "design": design.name,
        "pools": design.pools,
        "power": design.total("power"),
        "cost": design.total("cost"),
        "requests/s, measured": rate,
    }
