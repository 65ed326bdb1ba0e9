"""Rules that count, or that take turns, over all instances or over those of some pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy.expressions.namespaces import pools
from paceline.policy.rules import Chain, Routing

__all__ = ["Counting", "fewest_requests", "fewest_tokens", "round_robin"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counting(Chain):
    """Pick an instance by a count or in turn. Made by `round_robin`, `fewest_requests`, `fewest_tokens`."""

    name: Routing
    within: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        if self.within is None:
            return f"{self.name}()"
        within = self.within[0] if len(self.within) == 1 else list(self.within)
        return f"{self.name}(within={within!r})"

    @property
    def conditional(self) -> bool:
        """Whether it may pick none even if there are instances in the pools that it names: never."""
        return False


@typed(PolicyError)
def round_robin(*, within: str | Sequence[str] | None = None) -> Counting:
    """Pick each instance in turn.

    Parameters
    ----------
    within
        Only instances of this pool, or of these pools; others are passed over. None: all.

    Examples
    --------
    >>> round_robin(within="decode")
    round_robin(within='decode')
    """
    return Counting("round_robin", pools(within))


@typed(PolicyError)
def fewest_requests(*, within: str | Sequence[str] | None = None) -> Counting:
    """Pick the instance with the fewest unfinished requests; ties go to the lowest index.

    Parameters
    ----------
    within
        Only instances of this pool, or of these pools; None: all.

    Examples
    --------
    >>> fewest_requests(within=["prefill", "decode→prefill"])
    fewest_requests(within=['prefill', 'decode→prefill'])
    """
    return Counting("fewest_requests", pools(within))


@typed(PolicyError)
def fewest_tokens(*, within: str | Sequence[str] | None = None) -> Counting:
    """Pick the instance with the fewest tokens of prompts and of outputs so far; ties go to the lowest index.

    Parameters
    ----------
    within
        Only instances of this pool, or of these pools; None: all.

    Examples
    --------
    >>> fewest_tokens(within="prefill")
    fewest_tokens(within='prefill')
    """
    return Counting("fewest_tokens", pools(within))
