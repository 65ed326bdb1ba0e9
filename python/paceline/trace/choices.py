"""How the fields of a trace's file are to be taken, where the file leaves that open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from paceline.errors import TraceError

__all__ = ["Arrivals", "Choices", "Unit"]

Unit: TypeAlias = Literal["s", "ms", "us", "ns"]
Arrivals: TypeAlias = Literal["recorded", "dependent"]

_PER_SECOND: Final[dict[Unit, int]] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the caller of `read_trace` decides about a file's fields; None leaves it to the format.

    Attributes
    ----------
    unit
        The unit of the file's stamps.
    block_tokens
        Prompt tokens of one id.
    arrivals
        ``"recorded"``: requests arrive at their stamps. ``"dependent"``: a request that followed an answer
        waits for that answer in the replay, too.
    """

    unit: Unit | None = None
    block_tokens: int | None = None
    arrivals: Arrivals | None = None

    def units_per_second(self, usual: Unit) -> int:
        """Return the units of a stamp in a second; `usual` is the format's own unit."""
        return _PER_SECOND[self.unit or usual]

    def waits(self, name: str, *, stamped: bool) -> bool:
        """Whether requests that followed an answer wait for it.

        Parameters
        ----------
        name
            The file, for the error.
        stamped
            Whether every request of the file has a stamp, so that its arrival can be fixed. Then arrivals
            are fixed unless the caller decides otherwise.

        Raises
        ------
        TraceError
            Recorded arrivals are asked for, and there are none.
        """
        if self.arrivals == "recorded" and not stamped:
            raise TraceError(
                f"{name}: arrivals='recorded' needs a stamp in every row, and rows here have none: they arrive "
                "when an answer has come (arrivals='dependent')"
            )
        return self.arrivals == "dependent" or not stamped
