"""A recipe for a trace: how requests arrive and how long they are."""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline._arguments import typed_fields
from paceline.errors import ConfigError
from paceline.synthesis.arrivals import Arrivals, Poisson
from paceline.synthesis.empirical import Empirical
from paceline.synthesis.lengths import Lengths
from paceline.synthesis.numbers import check_rate

__all__ = ["Workload"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Workload:
    """How the requests of a synthesized trace arrive and how long they are.

    Attributes
    ----------
    name
        What the trace will be called.
    arrivals
        The arrival process.
    rate
        Requests per second where `synthesize` is given none; None makes it ask.
    prompt_tokens, output_tokens
        Distributions of the lengths, drawn independently of each other. Both, or `lengths`.
    lengths
        Pairs of lengths, drawn together.
    source
        Where the numbers come from, and how far they are off.

    Examples
    --------
    >>> from paceline.synthesis import Lognormal, Poisson, Workload
    >>> chat = Workload(
    ...     prompt_tokens=Lognormal.from_mean(1000, sigma=0.8, high=16_384),
    ...     output_tokens=Lognormal.from_mean(240, sigma=0.6, high=2_048),
    ... )
    >>> chat.arrivals
    Poisson()
    """

    name: str = "synthetic"
    arrivals: Arrivals = field(default_factory=Poisson)
    rate: float | None = None
    prompt_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    lengths: Empirical | None = None
    source: str = ""

    def __post_init__(self) -> None:
        sides = (self.prompt_tokens is not None, self.output_tokens is not None)
        if self.lengths is None and not all(sides):
            raise ConfigError("a workload needs prompt_tokens and output_tokens, or lengths")
        if self.lengths is not None and any(sides):
            raise ConfigError("a workload has either prompt_tokens and output_tokens, or lengths, not both")
        if self.rate is not None:
            check_rate(self.rate)
