"""Policies side by side on the same requests, with confidence intervals."""

from __future__ import annotations

from paceline.comparing.comparison import Comparison
from paceline.comparing.running import compare

__all__ = ["Comparison", "compare"]
