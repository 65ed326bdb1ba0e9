"""The paper's numbers."""

from __future__ import annotations

from typing import Final

from paceline.study.paper import Paper

__all__ = ["PAPER"]

PAPER: Final = Paper.load("paceline.study.pars")
