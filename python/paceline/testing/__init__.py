"""Tools to test schedulers with: the reference simulator."""

from __future__ import annotations

from paceline.testing import reference

__all__ = ["reference"]
