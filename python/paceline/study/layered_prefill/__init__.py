"""Layered prefill against chunked prefill on mixtures of experts: Lee et al., "From Tokens to Layers".

The cost of two H100 under Qwen3-30B-A3B is fitted to the chunked side alone (Figure 2 and Table 2, by
``paceline calibrate``; `paceline.calibration.load_fit`). All that is said of layered prefill follows from it.

Each page has a module with ``CASES``, the cases that the page reads, and ``page(runs)``, its words and parts.
The cases of all pages are announced first, so that they are replayed together.
"""

from __future__ import annotations

from paceline.study.layered_prefill import (
    dense,
    disaggregated,
    elsewhere,
    energy,
    fitted,
    groups,
    latency,
    lengths,
    loads,
    objectives,
    smoothness,
    tokens,
)
from paceline.study.layered_prefill.setting import PAPER, Runs
from paceline.study.model import Study
from paceline.study.pages import pages
from paceline.study.work import Work

__all__ = ["run"]

_PAGES = {
    "reading": lengths,
    "fitted": fitted,
    "latency": latency,
    "objectives": objectives,
    "loads": loads,
    "tokens": tokens,
    "energy": energy,
    "smoothness": smoothness,
    "groups": groups,
    "dense": dense,
    "disaggregated": disaggregated,
    "elsewhere": elsewhere,
}


def run(work: Work) -> Study:
    """Run the study."""
    runs = Runs(work)
    for module in _PAGES.values():
        runs.announce(module.CASES.values())
    return Study(
        name="layered-prefill",
        title="From tokens to layers: layered and chunked prefill on mixtures of experts",
        source=PAPER.source,
        pages=pages(__package__, {name: module.page(runs) for name, module in _PAGES.items()}),
        quick=work.quick,
    )
