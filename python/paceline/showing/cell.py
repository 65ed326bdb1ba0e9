"""A value as the text of a cell."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["cell"]


def cell(value: Any) -> str:  # noqa: ANN401 - a cell of a frame
    """Return a number with about four significant digits, and never an exponent; other values as text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return "∞"
    size = abs(value)
    if size == 0:
        return "0"
    decimals = 0 if size >= 1000 else max(0, 3 - math.floor(math.log10(size)))
    return f"{value:,.{min(decimals, 9)}f}"
