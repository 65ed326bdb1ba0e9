"""Replays that are driven from outside: requests are submitted while the cluster serves."""

from __future__ import annotations

from paceline.simulation.events import Event
from paceline.simulation.simulation import Simulation

__all__ = ["Event", "Simulation"]
