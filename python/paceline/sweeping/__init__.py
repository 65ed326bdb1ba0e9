"""Sweeps: replays over a grid of configurations, on all cores, into one dataset that resumes."""

from __future__ import annotations

from paceline.sweeping.dataset import read_sweep
from paceline.sweeping.grid import Grid
from paceline.sweeping.running import Sweep, sweep
from paceline.sweeping.study_file import read_grid
from paceline.sweeping.watch import SweepProgress

__all__ = ["Grid", "Sweep", "SweepProgress", "read_grid", "read_sweep", "sweep"]
