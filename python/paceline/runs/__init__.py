"""Whole runs as data: a trace, a cluster, a policy and settings, in one TOML file.

A run says all that a replay depends on, so replaying it again gives the same result, bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline._lazy import attach

if TYPE_CHECKING:
    from paceline.runs.recipe import Recipe
    from paceline.runs.run import Run, Settings, read_run

__all__ = ["Recipe", "Run", "Settings", "read_run"]

attach(
    __name__,
    {
        "recipe": ("Recipe",),
        "run": ("Run", "Settings", "read_run"),
    },
)
