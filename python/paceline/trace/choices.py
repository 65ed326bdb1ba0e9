"""How the fields of a trace's file are to be taken, where the file leaves that open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from paceline.errors import TraceError

__all__ = ["PER_SECOND", "Arrivals", "Choices", "Unit"]

Unit: TypeAlias = Literal["s", "ms", "us", "ns"]
Arrivals: TypeAlias = Literal["recorded", "dependent"]

PER_SECOND: Final[dict[Unit, int]] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

# Formats whose stamps are numbers in a unit that a tool may have written otherwise.
_WITH_UNIT: Final = frozenset(
    {
        *("aibrix", "bailian", "baseten", "burstgpt", "paceline", "vidur"),
        *("mooncake", "mooncake-delta", "agentic_mooncake", "timed_trace"),
    }
)

# Formats with ids of blocks whose size the file does not say.
_WITH_BLOCKS: Final = frozenset(
    {
        *("bailian", "llmservingsim", "paceline", "tracelab"),
        *("mooncake", "mooncake-delta", "agentic_mooncake", "timed_trace"),
    }
)

# Formats that say nothing of which request followed which answer.
_INDEPENDENT: Final = frozenset({"azure", "timed_trace", "vidur"})


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

    def check(self, format_: str, name: str) -> None:
        """Refuse a choice that the format of the file does not leave open.

        Raises
        ------
        TraceError
            The message names the file, the choice and the format.
        """
        if self.block_tokens is not None and self.block_tokens < 1:
            raise TraceError(f"block_tokens must be at least 1, was {self.block_tokens}")
        if self.unit is not None and format_ not in _WITH_UNIT:
            raise TraceError(f"{name}: unit={self.unit!r} is of no use: format {format_!r} has its own")
        if self.block_tokens is not None and format_ not in _WITH_BLOCKS:
            raise TraceError(
                f"{name}: block_tokens={self.block_tokens} is of no use: format {format_!r} has no "
                "ids of blocks, or says their size itself"
            )
        if self.arrivals == "dependent" and format_ in _INDEPENDENT:
            raise TraceError(
                f"{name}: arrivals='dependent' needs a format that says which request followed which answer; "
                f"{format_!r} does not"
            )

    def unit_is_open(self, format_: str) -> bool:
        """Whether the stamps of a format are numbers whose unit the file does not say."""
        return format_ in _WITH_UNIT

    def per_second(self, usual: Unit) -> int:
        """Return the units of a stamp in a second; `usual` is the format's own unit."""
        return PER_SECOND[self.unit or usual]

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
                f"{name}: arrivals='recorded' needs a stamp in every row, and some rows have none: they "
                "arrive when an answer has come; leave arrivals out"
            )
        return self.arrivals == "dependent" or not stamped
