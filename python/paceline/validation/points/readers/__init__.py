"""Readers of measured data, one for each kind, found by the columns or files that it has."""

from __future__ import annotations

from paceline.validation.points.readers.finding import Unread, read_points

__all__ = ["Unread", "read_points"]
