"""How values look in a notebook, and the way from a result to its report."""

from __future__ import annotations

__all__: list[str] = []
