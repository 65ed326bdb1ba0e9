"""Layered prefill against chunked prefill on mixtures of experts: Lee et al., "From Tokens to Layers".

The cost of two H100 under Qwen3-30B-A3B is fitted to the chunked side alone (Figure 2 and Table 2, by
``paceline calibrate``; `paceline.calibration.load_fit`). All that is said of layered prefill follows from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.study.layered_prefill import (
    dense,
    disaggregated,
    energy,
    fitted,
    groups,
    latency,
    loads,
    objectives,
    smoothness,
    tokens,
)
from paceline.study.layered_prefill.setting import Runs
from paceline.study.model import Page, Study

if TYPE_CHECKING:
    from paceline.study.work import Work

__all__ = ["run"]

_PAGES = (
    fitted,
    latency,
    objectives,
    loads,
    tokens,
    energy,
    smoothness,
    groups,
    dense,
    disaggregated,
)

_INTRODUCTION = """\
Fitted to the paper: the costs of two H100 under Qwen3-30B-A3B, from its chunked side alone (Figure 2 and
Table 2). Predicted: all that concerns layered prefill, other models, other traffic. A number says which it
is.

Arrivals are those of the authors' client: `numpy.random.gamma` from seed 0, 120 s of each rate, the same in
every trace. Prompts and outputs are drawn from the lengths of the paper's Table 4. The authors' own lengths
are not known: ours are medians over several draws, and the spread between them is part of what a difference
may mean. So is the spread over fits of equal cost, which stands in the notes.
"""


def run(work: Work) -> Study:
    """Run the study."""
    runs = Runs(work)
    for module in _PAGES:
        module.plan(runs)
    pages: list[Page] = [
        Page(
            name="reading",
            title="How to read this",
            parts=(_INTRODUCTION, runs.lengths_table(), runs.lengths_source()),
        )
    ]
    pages += [module.page(runs) for module in _PAGES]
    return Study(
        name="layered-prefill",
        title="From tokens to layers: layered and chunked prefill on mixtures of experts",
        source=(
            "Lee, Kim, Park, Lee, Ahn: From Tokens to Layers: Redefining Stall-Free Scheduling for MoE "
            "Serving with Layered Prefill (Seoul National University). Table and figure numbers are the "
            "paper's."
        ),
        pages=tuple(pages),
        quick=work.quick,
    )
