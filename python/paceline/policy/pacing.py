"""The pace at which a user reads tokens."""

from __future__ import annotations

from dataclasses import dataclass

from paceline._arguments import typed, typed_fields
from paceline._clock import TICKS_PER_SECOND
from paceline.errors import PolicyError
from paceline.policy.checks import duration
from paceline.policy.value import Value

__all__ = ["Pace"]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Pace(Value):
    """The pace at which a user reads, by which QoE and pacing slack are measured.

    Parameters
    ----------
    tpot
        Seconds that a user takes to read a token.
    first
        Seconds from the end of reasoning within which the first token of the
        answer must come for its pacer not to run dry.
    ttft
        Seconds from arrival within which a user expects the first token of the
        answer; None: QoE has no term for it.

    Raises
    ------
    PolicyError
        If a value is out of range.

    Examples
    --------
    >>> Pace(tpot=0.1, first=0.25).to_wire()
    {'interval': 100000000000, 'first': 250000000000, 'ttft': None}
    """

    tpot: float
    first: float = 0.25
    ttft: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("tpot", 1e-9), ("first", 0.0), ("ttft", 0.0)):
            value = getattr(self, name)
            if value is not None:
                duration(f"{name} of a Pace", value, least=least)
        if self.first < self.tpot:
            raise PolicyError(
                f"first of a Pace must be no shorter than its tpot of {self.tpot} s, was {self.first}: "
                "a user waits that long for any token"
            )

    @typed(PolicyError)
    def to_wire(self, ticks_per_s: float = TICKS_PER_SECOND) -> dict[str, int | None]:
        """Return the pace as the engine reads it, in ticks."""
        ttft = None if self.ttft is None else round(self.ttft * ticks_per_s)
        return {
            "interval": round(self.tpot * ticks_per_s),
            "first": round(self.first * ticks_per_s),
            "ttft": ttft,
        }
