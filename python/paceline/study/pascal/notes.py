"""The notes beside the headline numbers: what each depends on, with this run's numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

__all__ = ["notes"]

_LOADS: Final = ("load 1", "load 1.2", "load 1.3")
_CHUNKS: Final = "FCFS of vLLM 0.6.1, chunked prefill"
_FITS: Final = "room: the next step's"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """The note on a number.

    Attributes
    ----------
    text
        What the number depends on.
    column, spec
        Of the comparisons, and how its values are written.
    rows
        The comparisons that are quoted.
    """

    text: str
    column: str
    spec: str
    rows: tuple[str, ...]


_COMPARED: Final = {
    "alpacaeval FCFS cut": _Note(
        text="depends on the load, and on whether FCFS admits past swapped requests",
        column="cut FCFS",
        spec=".0%",
        rows=(*_LOADS, _CHUNKS),
    ),
    "alpacaeval FCFS cut_s": _Note(
        text="grows with load and length of the run, neither given",
        column="cut FCFS (s)",
        spec=".0f",
        rows=(
            "load 1.3",
            "each prompt 20 times",
            "steps half as long again",
            "steps twice as long",
            "13 ms of host time in a step",
        ),
    ),
    "alpacaeval FCFS worse": _Note(
        text="grows with the length of the run",
        column="worse FCFS",
        spec=".0%",
        rows=("each prompt 20 times", _FITS),
    ),
    "alpacaeval RR cut": _Note(
        text="RR preempts the longest first; grows with load and with longer answers",
        column="cut RR",
        spec=".0%",
        rows=("load 1.2", "load 1.3", "answers twice as long"),
    ),
    "alpacaeval RR cut_s": _Note(
        text="grows with load and with the step time, neither given",
        column="cut RR (s)",
        spec=".0f",
        rows=("load 1.2", "answers twice as long", "steps half as long again", "steps twice as long"),
    ),
    "alpacaeval RR worse": _Note(
        text="depends on load and on when a request stays",
        column="worse RR",
        spec=".0%",
        rows=("load 1.2", _FITS),
    ),
    "blocking without": _Note(
        text="grows with step time and load, neither given",
        column="blocking NoMigration",
        spec=".1f",
        rows=("steps twice as long", "load 1.3", "reasoning half as long at P99, as short below 1,000"),
    ),
    "blocking with": _Note(
        text="depends on the load and on the room that a request needs to stay",
        column="blocking",
        spec=".2f",
        rows=("load 1", "load 1.2", "load 1.3", _FITS),
    ),
    "violations always": _Note(
        text="depends on load, answers and the time of copies, none given",
        column="NonAdaptive's",
        spec=".1%",
        rows=(
            "load 1",
            "copies to the host take no time",
            "PASCAL: quanta are not counted anew for the answer",
        ),
    ),
    "violations": _Note(
        text="depends on load, step time and when a request stays",
        column="violations",
        spec=".2%",
        rows=("load 1.2", "steps twice as long", "copies at a quarter of PCIe's bandwidth", _FITS),
    ),
    "e2e median": _Note(
        text="always moving gathers answers on few instances; depends on step time and the order of answers",
        column="e2e median",
        spec="+.0%",
        rows=(
            "steps half as long again",
            "steps twice as long",
            "PASCAL: no displacement",
            "PASCAL: quanta are not counted anew for the answer",
            _FITS,
        ),
    ),
    "e2e tail": _Note(
        text="depends on load and step time",
        column="e2e tail",
        spec="+.0%",
        rows=("load 1", "load 1.2", "steps twice as long"),
    ),
}


def notes(comparisons: pl.DataFrame, mixes: pl.DataFrame, phases: pl.DataFrame) -> dict[str, str]:
    """Return a note for each number that differs, by the keys of `headline.numbers`.

    Parameters
    ----------
    comparisons
        What `variations.varied` returns.
    mixes
        What `heavy.mixed` returns.
    phases
        Figure 4 at other rates and with other lengths, as `characterization` has it.
    """
    found = {
        key: f"{note.text} ({_shown(comparisons, note.column, note.spec, note.rows)})"
        for key, note in _COMPARED.items()
    }
    finer = phases.filter((pl.col("lengths") == "multiples of 128") & (pl.col("of the highest rate") == 1.0))
    for policy, column in (("FCFS", "FCFS at 128"), ("RR", "RR at 2048")):
        found[f"figure 4 {policy}"] = (
            f"lengths and rate are a reading (multiples of 128: {finer[column].item():.2f})"
        )
    half = ("problems half as long, at the same ratio",)
    for baseline in ("FCFS", "RR"):
        found[f"heavy {baseline} cut"] = (
            f"the problems' lengths are assumed ({_shown(mixes, f'cut {baseline}', '.0%', half)})"
        )
        column = f"worse {baseline} below 5,000"
        below = mixes.filter(pl.col("what") == "as it is")[column].item()
        found[f"heavy {baseline} worse"] = (
            "mostly where PASCAL demotes, above 5,000 tokens, which the paper's problems may seldom reach "
            f"(below 5,000: {below:.0%}; {_shown(mixes, f'worse {baseline}', '.0%', half)})"
        )
    return found


def _shown(rows: pl.DataFrame, column: str, spec: str, whats: tuple[str, ...]) -> str:
    parts = []
    for what in whats:
        value = rows.filter(pl.col("what") == what)[column].item()
        parts.append(f"{what.removeprefix('PASCAL: ')}: {value:{spec}}")
    return "; ".join(parts)
