"""What serving costs depend on of the hardware: a GPU's figures, what kernels reach of them, and energy.

A :class:`Gpu` holds the figures of a datasheet. Its :class:`Efficiency` is the share of them that kernels
reach, and its :class:`Energy` what time, bytes and FLOPs take in joules.
"""

from __future__ import annotations

from paceline.hardware.efficiency import Efficiency, KernelEfficiency
from paceline.hardware.energy import Energy
from paceline.hardware.gpu import Gpu, gpu_from_table, gpu_names

__all__ = ["Efficiency", "Energy", "Gpu", "KernelEfficiency", "gpu_from_table", "gpu_names"]
