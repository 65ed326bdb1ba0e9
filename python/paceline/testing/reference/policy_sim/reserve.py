"""Tokens that an admission leaves for outputs to come."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from paceline.testing.reference.policy_sim.request import Request

_MILLION = 10**6


class Reserve:
    """The share of outputs to come that is reserved, and whether requests may be admitted.

    Attributes
    ----------
    base : Fraction
        The share at the start, or after the last preemption.
    decays : int
        Steps of decodes alone since.
    closed : int or None
        The running requests as an admission failed: none is admitted before fewer run.
    """

    def __init__(self, rules: dict[str, int]) -> None:
        self.first = Fraction(rules["first"], _MILLION)
        self.least = Fraction(rules["least"], _MILLION)
        self.decay = (self.first - self.least) / rules["steps"]
        self.after, self.clip = rules["after"], rules["clip"]
        self.closed: int | None = None
        self.reset()

    @property
    def share(self) -> Fraction:
        """The share that is reserved now."""
        return max(self.base - self.decays * self.decay, self.least) if self.decays else self.base

    def reset(self) -> None:
        """Begin with the first share."""
        self.base, self.decays = self.first, 0

    def estimate(self, running: Iterable[Request]) -> None:
        """Take the share that the running requests have generated, and `after` tokens more of each."""
        several = list(running)
        generated = sum(one.generated - one.hidden for one in several) + self.after * len(several)
        total = sum(one.spec.output_tokens for one in several) + 1
        self.base, self.decays = min(Fraction(generated, total), Fraction(1)), 0
