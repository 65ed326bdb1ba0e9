"""The time of a step: cost models that Python builds and the engine evaluates.

An :class:`Affine` has three prices. A :class:`Roofline` follows from a model, a GPU and an
:class:`Efficiency`: each kernel takes the longer of its memory time and its arithmetic time, and the step is
their sum; a :class:`Coverage` says how many experts of a mixture a batch needs. The engine gets either once,
as whole ticks of a picosecond, and evaluates it exactly.
"""

from __future__ import annotations

from paceline._clock import ticks
from paceline.cost.affine import Affine
from paceline.cost.coverage import Coverage
from paceline.cost.reading import Cost, cost_from_table
from paceline.cost.roofline import Roofline
from paceline.cost.tables import cost_to_table
from paceline.hardware.efficiency import Efficiency, KernelEfficiency
from paceline.hardware.energy import Energy

__all__ = [
    "Affine",
    "Cost",
    "Coverage",
    "Efficiency",
    "Energy",
    "KernelEfficiency",
    "Roofline",
    "cost_from_table",
    "cost_to_table",
    "ticks",
]
