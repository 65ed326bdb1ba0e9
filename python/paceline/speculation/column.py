"""Acceptance lengths that a trace has for each request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paceline import _check
from paceline._arguments import typed_fields
from paceline.errors import ConfigError, TraceError
from paceline.speculation.acceptance import MOST_DRAFTS, AcceptanceLength, ByPosition, Listed

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Acceptance", "FromColumn", "resolve_columns"]

_DENOMINATOR = 1000


@dataclass(frozen=True, slots=True)
@typed_fields()
class FromColumn:
    """Acceptance lengths by request, from a column of the trace.

    Each request has the mean of its own, as :class:`AcceptanceLength` has it for all: its steps yield the two
    whole numbers next to it, as evenly as possible.

    Baseten's traces have a column ``speculation_ratio``. aiperf, which replays them, takes it as the tokens
    of a decode iteration, which is the acceptance length. Its publisher does not define it: if a file's
    numbers mean something else, `scale` and `offset` turn them into lengths.

    Parameters
    ----------
    column
        The column's name. Its numbers are rounded to thousandths of a token; each row must have one.
    scale, offset
        A request's acceptance length is ``scale * number + offset``: with ``offset=1`` of a column that has
        accepted drafts a step.

    Raises
    ------
    ConfigError
        If the name is empty, or a factor is not finite.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"speculation_ratio": [1.5, 2.0]})
    >>> FromColumn("speculation_ratio").lengths(frame, 3)
    {'kind': 'by_row', 'denominator': 1000, 'numerators': [1500, 2000]}
    """

    column: str
    scale: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        _check.text("column of a FromColumn", self.column)
        _check.positive("scale of a FromColumn", self.scale)
        if not _check.is_number(self.offset):
            raise ConfigError(f"offset of a FromColumn must be a number, was {_check.said(self.offset)}")

    def check(self, tokens: int) -> None:
        """Accept any number of drafts: the lengths are checked by row."""

    def to_wire(self) -> dict[str, Any]:
        """Return the rule; :func:`resolve_columns` replaces it by that of a trace."""
        return {"kind": "column", "rule": self}

    def lengths(self, frame: pl.DataFrame, tokens: int) -> dict[str, Any]:
        """Return the rule as the engine reads it, of the requests of a trace and of so many drafts.

        Raises
        ------
        TraceError
            If there is no such column, or a row has no number in it, or none from 1 to one more than the
            drafts.
        """
        if self.column not in frame.columns:
            raise TraceError(
                f"the trace must have the column {self.column!r}, which a FromColumn names, "
                f"had {', '.join(frame.columns)}"
            )
        values = frame.get_column(self.column)
        if not values.dtype.is_numeric():
            raise TraceError(f"column {self.column!r} must hold numbers, was {values.dtype}")
        numerators = []
        for row, value in enumerate(values.to_list()):
            if value is None:
                raise TraceError(f"{self.column} of row {row} must be a number, was null")
            length = self.scale * value + self.offset
            if not 1 <= length <= min(tokens, MOST_DRAFTS) + 1:
                raise TraceError(
                    f"{self.column} of row {row} must be 1 to {tokens + 1} tokens a step with {tokens} "
                    f"drafts, was {value}, which is {length:g}"
                )
            numerators.append(round(length * _DENOMINATOR))
        return {"kind": "by_row", "denominator": _DENOMINATOR, "numerators": numerators}


Acceptance = AcceptanceLength | ByPosition | Listed | FromColumn
"""Any rule of what is accepted."""


def resolve_columns(wires: Sequence[dict[str, Any]], frame: pl.DataFrame | None) -> list[dict[str, Any]]:
    """Return instances as the engine reads them, with the acceptance lengths of a trace's columns.

    Raises
    ------
    TraceError
        As :meth:`FromColumn.lengths` does.
    ConfigError
        If there is no trace whose columns could be read.
    """
    found: dict[tuple[FromColumn, int], dict[str, Any]] = {}
    return [_resolved(wire, frame, found) for wire in wires]


def _resolved(
    wire: dict[str, Any], frame: pl.DataFrame | None, found: dict[tuple[FromColumn, int], dict[str, Any]]
) -> dict[str, Any]:
    speculation = wire.get("speculation")
    if speculation is None or speculation["acceptance"]["kind"] != "column":
        return wire
    rule, tokens = speculation["acceptance"]["rule"], speculation["tokens"]
    if frame is None:
        raise ConfigError(
            "acceptance of a Speculation must not be a FromColumn where requests are submitted from outside: "
            f"there is no trace with a column {rule.column!r}"
        )
    if (rule, tokens) not in found:
        found[rule, tokens] = rule.lengths(frame, tokens)
    return {**wire, "speculation": {**speculation, "acceptance": found[rule, tokens]}}
