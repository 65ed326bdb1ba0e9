"""The difference between the engine and a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline._arguments import typed_fields

__all__ = ["Difference"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Difference:
    """The first difference between the engine and a log.

    Attributes
    ----------
    where
        ``step 12`` or ``request 7``.
    field
        The field that differs.
    ours, theirs
        The two values; None if there is none.
    """

    where: str
    field: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.where}: {self.field} is {self.ours} here, {self.theirs} in the log"
