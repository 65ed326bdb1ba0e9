"""The source of a trace."""

from __future__ import annotations

from dataclasses import dataclass

from paceline._arguments import typed_fields
from paceline.errors import TraceError

__all__ = ["Source"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(TraceError)
class Source:
    """The source of a trace's rows.

    Attributes
    ----------
    kind
        The name of the format of a file, as in `traces/schema.md`, ``"synthesis"`` for a drawn trace,
        ``"columns"`` for one built in memory and ``"concat"`` for several laid end to end.
    path
        The file that was read, as it was given; None where there was no file.
    detail
        Further facts: the recipe of a drawn trace, the layout of a file.
    """

    kind: str
    path: str | None = None
    detail: str = ""
