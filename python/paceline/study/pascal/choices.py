"""What the paper leaves open: what the study and the package take, why, and what it moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from paceline.study.model import Page, Table
from paceline.study.pascal.claims import CLAIMS
from paceline.study.pascal.comparison import FORMATS
from paceline.study.pascal.variations import OWN

__all__ = ["CHOICES", "Choice", "choices_page", "moved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Something that the paper does not settle.

    Attributes
    ----------
    what, taken, why
        Its name, what is taken, and the reason.
    rows
        The variations that take something else.
    """

    what: str
    taken: str
    why: str
    rows: tuple[str, ...] = ()


CHOICES: Final = (
    Choice(
        what="`watermark`",
        taken="0.01, all policies",
        why="vLLM 0.6.1 has it without an option: `Scheduler` never passes one to `BlockSpaceManagerV1`",
        rows=("watermark 0",),
    ),
    Choice(
        what="`room`",
        taken="a quantum, above the watermark",
        why='"sufficient memory to handle the answering phase" (IV.B), whose length is not known',
        rows=("room: the next step's", "room: the longest answer's"),
    ),
    Choice(
        what="swap space",
        taken="256 GiB a GPU",
        why="the paper's host (III.A), all of it for KV; no replay with the shipped defaults fills it",
        rows=("swap space of 4 GiB, vLLM's default", "swap space of 32 GiB"),
    ),
    Choice(
        what="time of a swap",
        taken="PCIe 5.0's datasheet bandwidth, before the step",
        why="0.6.1 issues copies before the forward pass; no time is published",
        rows=("copies to the host take no time", "copies at a quarter of PCIe's bandwidth"),
    ),
    Choice(
        what="host time of a step",
        taken="5 ms",
        why="the least of vLLM issue 6854's 5 to 13 ms, measured on 0.5.3; nothing sourced for 0.6.1",
        rows=("no host time in a step", "13 ms of host time in a step"),
    ),
    Choice(
        what="kernel time of a step",
        taken="the catalog's roofline of an H100",
        why="the paper's profile is not published",
        rows=("steps half as long again", "steps twice as long"),
    ),
    Choice(
        what="FCFS",
        taken="one queue by arrival, swapped requests included",
        why='"strictly in arrival order", "new admissions pause until space frees up" (V.A)',
        rows=("FCFS of vLLM 0.6.1, whole prompts", "FCFS of vLLM 0.6.1, chunked prefill"),
    ),
    Choice(
        what="chunked prefill",
        taken="512 tokens a step, 256 requests, all policies",
        why="0.6.1's values with it; it turns on by itself above 32,768 positions, but 0.6.1 does not start "
        "with this model's 131,072 on one such GPU, so the authors set fewer, not published how many",
    ),
    Choice(
        what="RR and PASCAL preempt",
        taken="the worst-ranked running request, when a better-ranked one lacks blocks",
        why='"preferential allocation privilege" (IV.C)',
        rows=("PASCAL: no displacement",),
    ),
    Choice(
        what="quanta of the answer",
        taken="counted anew",
        why="a_i: answers that have not exhausted their first quantum (Algorithm 2)",
        rows=("PASCAL: quanta are not counted anew for the answer",),
    ),
    Choice(
        what="order at equal quanta",
        taken="by when they joined the queue",
        why="round robin's",
        rows=("PASCAL: equal quanta go by arrival",),
    ),
    Choice(
        what="prefill",
        taken="ranks as reasoning",
        why="footnote 2",
        rows=("PASCAL: prefill ranks before reasoning",),
    ),
    Choice(
        what="demotion above 5,000",
        taken="tokens of KV",
        why="IV.C; V.A says reasoning tokens",
        rows=("PASCAL: demotion by generated tokens",),
    ),
    Choice(
        what="answers on pace",
        taken="as long as each pacer has tokens",
        why="the pacer reports insufficient remaining tokens (IV.B)",
        rows=("PASCAL: on pace by the mean time between tokens",),
    ),
    Choice(
        what="Algorithm 1's m",
        taken="KV on GPU and CPU",
        why="Algorithm 1",
        rows=("PASCAL: Algorithm 1 counts KV on the GPU alone",),
    ),
    Choice(
        what="quantum",
        taken="500 tokens",
        why="V.A gives it; varied all the same",
        rows=("PASCAL: quanta of 250 tokens",),
    ),
    Choice(
        what="rates",
        taken="loads of 0.9, 1 and 1.1",
        why="not given; a tenth below the memory, as much, a tenth above",
        rows=("load 0.9", "load 1", "load 1.2", "load 1.25", "load 1.3"),
    ),
    Choice(
        what="number of requests",
        taken="each prompt five times",
        why="not given; the paper's bins have up to 100 requests and more",
        rows=("each prompt three times", "each prompt 20 times"),
    ),
    Choice(
        what="lengths",
        taken="workloads.toml",
        why="not published; fitted to the text",
        rows=("reasoning half as long at P99, as short below 1,000", "answers twice as long"),
    ),
)

_SHOWN: Final = ("cut FCFS", "violations", "blocking")


def moved(comparisons: pl.DataFrame, what: str) -> str:
    """Return what a variation makes of the numbers shown, and which claims then hold or no longer do."""
    own, other = (_row(comparisons, each) for each in (OWN, what))
    numbers = ", ".join(f"{name} {_printed(name, other[name])}" for name in _SHOWN)
    lost = [claim.name for claim in CLAIMS if claim.holds(own) and not claim.holds(other)]
    won = [claim.name for claim in CLAIMS if claim.holds(other) and not claim.holds(own)]
    verdict = [f"no longer: {', '.join(lost)}"] if lost else []
    verdict += [f"then holds: {', '.join(won)}"] if won else []
    return f"{what.removeprefix('PASCAL: ')}: {'; '.join([numbers, *verdict])}"


def choices_page(comparisons: pl.DataFrame | None, overflows: int) -> Page:
    """Return the page of choices.

    Parameters
    ----------
    comparisons
        What `variations.varied` returns; None of a quick run, whose page does not say what choices move.
    overflows
        Preemptions of the study's own replays whose KV did not fit into the swap space.
    """
    rows = []
    for choice in CHOICES:
        entry = {"choice": choice.what, "taken": choice.taken, "why": choice.why}
        if comparisons is not None:
            entry["otherwise"] = " / ".join(moved(comparisons, what) for what in choice.rows) or "not varied"
        rows.append(entry)
    parts = (
        "The study calls `policies.fcfs()`, `policies.round_robin_quanta()` and `policies.pascal()` without "
        "arguments (PASCAL's variants with `migration`), and adds the pace by which QoE is measured.",
        Table(
            name="choices-table", caption="What remains chosen, and what it moves", frame=pl.DataFrame(rows)
        ),
        _own(comparisons, overflows),
    )
    return Page(name="choices", title="What the paper leaves open", parts=parts)


def _own(comparisons: pl.DataFrame | None, overflows: int) -> Table:
    entry: dict[str, object] = {"preemptions beyond the swap space": overflows}
    if comparisons is not None:
        own = _row(comparisons, OWN)
        entry |= {name: _printed(name, own[name]) for name in _SHOWN}
    return Table(
        name="choices-own",
        caption="The study's own row, and preemptions whose KV did not fit into the swap space",
        frame=pl.DataFrame([entry]),
    )


def _row(comparisons: pl.DataFrame, what: str) -> Mapping[str, Any]:
    return comparisons.row(by_predicate=pl.col("what") == what, named=True)


def _printed(name: str, value: float) -> str:
    return f"{value:{FORMATS[name]}}" + (" s" if name == "blocking" else "")
