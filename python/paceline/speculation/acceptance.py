"""Which drafts are accepted: three rules, each a function of the request and of its output so far."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from paceline import _check
from paceline._arguments import typed_fields
from paceline.errors import ConfigError

__all__ = ["MOST_DRAFTS", "AcceptanceLength", "ByPosition", "Listed"]

MOST_DRAFTS = 64
"""The most drafts of a request in a step: ``rust/core/src/config/speculation.rs``."""
_MOST_LISTED = 2**16
_MOST_PERIOD = 1000
_CERTAIN = 2**32


def _whole(what: str, value: int) -> None:
    """Check a number that a file has to hold."""
    _check.count(what, value, least=0, most=2**63 - 1, why="TOML has whole numbers of 64 bits")


@dataclass(frozen=True, slots=True)
@typed_fields()
class AcceptanceLength:
    """An acceptance length: the mean of the tokens that a step yields of a request.

    This is the number by which InferenceX, vLLM and SGLang compare methods: 1 + accepted drafts / steps. The
    token after the accepted drafts counts. Steps yield the two whole numbers next to it in turn, as evenly
    as possible (the least variance), so that every request has the same mean and no draw is needed. Imitates
    vLLM's ``synthetic_acceptance_length`` (pull request 40662). Where fewer drafts are verified than a step
    would accept, all of them are accepted.

    Parameters
    ----------
    length
        Tokens a step, from 1 to 65. A denominator of at most 1,000 stands for it.

    Raises
    ------
    ConfigError
        If it is out of range.

    Examples
    --------
    >>> AcceptanceLength(2.5).yields()
    [2, 3]
    >>> AcceptanceLength(2.75).yields()
    [2, 3, 3, 3]
    """

    length: float

    def __post_init__(self) -> None:
        _check.positive("length of an AcceptanceLength", self.length)
        if not 1 <= self.length <= MOST_DRAFTS + 1:
            raise ConfigError(
                f"length of an AcceptanceLength must be 1 to {MOST_DRAFTS + 1} tokens, was {self.length}"
            )

    def yields(self) -> list[int]:
        """Return the tokens that successive steps yield, once round."""
        mean = Fraction(self.length).limit_denominator(_MOST_PERIOD)
        sums = [step * mean.numerator // mean.denominator for step in range(mean.denominator + 1)]
        return [after - before for before, after in pairwise(sums)]

    def check(self, tokens: int) -> None:
        """Refuse more tokens a step than ``tokens`` drafts can yield."""
        if self.length > tokens + 1:
            raise ConfigError(
                f"length of an AcceptanceLength must be at most {tokens + 1} with {tokens} drafts, "
                f"was {self.length}"
            )

    def to_wire(self) -> dict[str, Any]:
        """Return the rule as the engine reads it."""
        return {"kind": "periodic", "yields": self.yields()}


@dataclass(frozen=True, slots=True)
@typed_fields()
class ByPosition:
    """Rates of acceptance by the position of a draft.

    Whether a draft is accepted is drawn from the seed, the request's row in the trace, its output tokens so
    far and the position: not from the instance or the step. So routing, batching and preemption change no
    draw.

    Parameters
    ----------
    rates
        For each position a probability from 0 to 1. A draft past the last position is rejected.
    conditional
        Whether a rate is that of a draft whose predecessors are all accepted, as Dynamo's mocker takes it.
        If not, it is the share of all steps in which the draft at this position is accepted, as vLLM's
        metrics report it; then rates must not rise.
    seed
        Of the draws.

    Raises
    ------
    ConfigError
        If a rate is out of range, or rises though it is not conditional.

    Examples
    --------
    >>> ByPosition((0.8, 0.6, 0.3)).length
    2.7
    >>> ByPosition((0.5, 0.5), conditional=True).length
    1.75
    """

    rates: tuple[float, ...]
    conditional: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= len(self.rates) <= MOST_DRAFTS:
            raise ConfigError(f"rates of a ByPosition must be 1 to {MOST_DRAFTS}, were {len(self.rates)}")
        for rate in self.rates:
            if not _check.is_number(rate) or not 0 <= rate <= 1:
                raise ConfigError(
                    f"rates of a ByPosition must be numbers from 0 to 1, had {_check.said(rate)}"
                )
        if not self.conditional and any(after > before for before, after in pairwise(self.rates)):
            raise ConfigError(
                "rates of a ByPosition must not rise if they are not conditional: a draft is accepted "
                f"only if those before it are; were {self.rates}"
            )
        _whole("seed of a ByPosition", self.seed)

    @property
    def chances(self) -> tuple[float, ...]:
        """The probability by position that a draft is accepted, given that all before it are."""
        if self.conditional:
            return self.rates
        before = (1.0, *self.rates)
        return tuple(rate / last if last else 0.0 for last, rate in zip(before, self.rates, strict=False))

    @property
    def length(self) -> float:
        """The acceptance length that the rates amount to, if as many drafts are verified."""
        reached, total = 1.0, 1.0
        for chance in self.chances:
            reached *= chance
            total += reached
        return round(total, 12)

    def check(self, tokens: int) -> None:
        """Refuse more positions than drafts."""
        if len(self.rates) > tokens:
            raise ConfigError(
                f"rates of a ByPosition must be at most {tokens}, as there are drafts, were {len(self.rates)}"
            )

    def to_wire(self) -> dict[str, Any]:
        """Return the rule as the engine reads it."""
        chances = [min(round(chance * _CERTAIN), _CERTAIN) for chance in self.chances]
        return {"kind": "drawn", "chances": chances, "seed": self.seed}


@dataclass(frozen=True, slots=True)
@typed_fields()
class Listed:
    """Measured numbers of accepted, or of proposed, drafts.

    A request in row ``r`` of the trace that has yielded ``n`` tokens takes ``values[(stride * r + n) %
    len(values)]``.

    Parameters
    ----------
    values
        The numbers, from 0 to 64.
    stride
        The factor of the row. With 0 all requests read the list from its start.

    Raises
    ------
    ConfigError
        If there is no number, or one is out of range.

    Examples
    --------
    >>> Listed((2, 0, 4)).length
    3.0
    """

    values: tuple[int, ...]
    stride: int = 1

    def __post_init__(self) -> None:
        if not 1 <= len(self.values) <= _MOST_LISTED:
            raise ConfigError(f"values of a Listed must be 1 to {_MOST_LISTED}, were {len(self.values)}")
        for value in self.values:
            _check.count(
                "each of the values of a Listed",
                value,
                least=0,
                most=MOST_DRAFTS,
                why="a step has no more drafts",
            )
        _whole("stride of a Listed", self.stride)

    @property
    def length(self) -> float:
        """The acceptance length that the numbers amount to, if as many drafts are verified."""
        return 1 + sum(self.values) / len(self.values)

    def check(self, tokens: int) -> None:
        """Accept any list: a step accepts no more drafts than it verifies."""

    def to_wire(self) -> dict[str, Any]:
        """Return the rule as the engine reads it."""
        return {"kind": "listed", **self.to_list()}

    def to_list(self) -> dict[str, Any]:
        """Return the list as the engine reads it."""
        return {"stride": self.stride, "values": list(self.values)}
