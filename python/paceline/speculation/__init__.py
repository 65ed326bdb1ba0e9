"""Speculative decoding: what is drafted, what is accepted, and what drafting costs."""

from __future__ import annotations

from paceline.speculation.acceptance import AcceptanceLength, ByPosition, Listed
from paceline.speculation.column import Acceptance, FromColumn
from paceline.speculation.draft import Draft
from paceline.speculation.golden import golden_length, golden_names
from paceline.speculation.speculation import Speculation

__all__ = [
    "Acceptance",
    "AcceptanceLength",
    "ByPosition",
    "Draft",
    "FromColumn",
    "Listed",
    "Speculation",
    "golden_length",
    "golden_names",
]
