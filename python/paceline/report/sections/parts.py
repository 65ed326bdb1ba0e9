"""Where time goes: the parts of latencies, and how far GPUs are used meanwhile."""

from __future__ import annotations

import polars as pl

from paceline.report.charts.kit import Axis, stacked_bars
from paceline.report.charts.theme import PARTS as PART_COLOURS
from paceline.report.data.parts import BANDS, PARTS, parts_by_band
from paceline.report.data.utilisation import utilisation
from paceline.report.figure import Figure, Section, Table, table_of
from paceline.report.replayed import Run
from paceline.showing.cell import cell

__all__ = ["split"]


def split(runs: tuple[Run, ...]) -> Section:
    """Return the section of the parts of a latency."""
    frame = parts_by_band(runs)
    colours = dict(zip(PARTS, PART_COLOURS, strict=True))
    share = Axis("share", "share of E2E", form="%", tip=".1%")
    seconds = Axis("seconds", "mean seconds of a request")
    figures = []
    groups = {"all": "all finished requests", "slowest 1%": "the slowest 1% of requests by E2E"}
    if len(runs) > 1:
        for band, words in groups.items():
            of = frame.filter(pl.col("band") == band)
            if of.height:
                figures.append(
                    Figure(
                        title=f"Parts of E2E: {words}",
                        note=_PARTS_NOTE,
                        chart=stacked_bars(of, "run", seconds, by="part", colours=colours, also=(share,)),
                        table=_parts_table(of, "run"),
                    )
                )
    elif frame.height:
        figures = [
            Figure(
                title="Parts of E2E in seconds",
                note=_PARTS_NOTE,
                chart=stacked_bars(frame, "band", seconds, by="part", colours=colours, also=(share,)),
                table=_parts_table(frame, "band"),
            ),
            Figure(
                title="Parts of E2E as shares",
                note=f"Requests by their E2E: {', '.join(BANDS)}, and all.",
                chart=stacked_bars(frame, "band", share, by="part", colours=colours, also=(seconds,)),
                table=_parts_table(frame, "band", "share"),
            ),
        ]
    figures += _used(runs)
    return Section(name="parts", title="Where time goes", figures=tuple(figures))


_PARTS_NOTE = (
    "Queued: before the first step that ran it. Prefill: steps before the first token that computed its "
    "prompt. Stalled in prefill: between them, while steps computed others. Decode: from the first token on, "
    "in the batch. Preempted: out of the batch. Blocked: between reasoning and the answer. In transfer: "
    "between instances."
)


def _used(runs: tuple[Run, ...]) -> list[Figure]:
    """Return the use of the GPUs' peaks, of the runs whose GPUs are known."""
    frame = utilisation(runs)
    if not frame.height:
        return []
    titles = {
        "run": "",
        "gpus": "GPUs",
        "busy": "Time in steps",
        "mfu": "MFU in steps",
        "bandwidth": "Memory bandwidth in steps",
        "mfu_on": "MFU of all time",
        "bandwidth_on": "Memory bandwidth of all time",
    }
    rows = tuple(
        (name, cell(gpus), *(f"{share:.1%}" for share in shares)) for name, gpus, *shares in frame.rows()
    )
    note = (
        "Operations and bytes of the steps, over the datasheet's 16-bit peak without sparsity and its memory "
        "bandwidth. Prompts that are computed again count again."
    )
    return [Figure(title="Use of the GPUs", table=Table(tuple(titles.values()), rows, note=note), wide=True)]


def _parts_table(frame: pl.DataFrame, index: str, values: str = "seconds") -> Table:
    wide = frame.pivot("part", index=[index, "requests"], values=values, maintain_order=True)
    unit = "s" if values == "seconds" else "share"
    return table_of(wide, (index, "requests", *(f"{part} ({unit})" for part in PARTS)))
