"""Searches over replays: the highest rate that meets an objective, and the fewest GPUs for a rate."""

from __future__ import annotations

from paceline.planning.candidates import Candidates
from paceline.planning.edge import Crossing
from paceline.planning.fewest_gpus import plan
from paceline.planning.found import Capacity
from paceline.planning.highest_rate import capacity
from paceline.planning.planned import Plan

__all__ = ["Candidates", "Capacity", "Crossing", "Plan", "capacity", "plan"]
