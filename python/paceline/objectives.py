"""Service level objectives: bounds on the latencies of a request.

An :class:`SLO` holds upper bounds on a request's latencies. A request meets it
when it finished and stays within *every* bound given, as vLLM's and DistServe's
goodput do; bounds that are left out are not checked.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from paceline import _check, _toml
from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError

__all__ = ["SLO"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
@typed_fields(
    but=(
        "ttft",
        "tpot",
        "e2e",
        "itl",
    )
)
class SLO:
    """Latency bounds, in seconds, that a request meets together or not at all.

    Attributes
    ----------
    ttft
        Time to first token: from arrival to the end of the step that emits
        the first token, queueing included.
    tpot
        Mean time per output token after the first. A request with a single
        output token meets any bound, as in vLLM's benchmark.
    e2e
        From arrival to the last token.
    itl
        The longest gap between two tokens of the request. A request with a
        single output token meets any bound.

    Raises
    ------
    ConfigError
        If a bound is not a positive, finite number, or none is given.

    Examples
    --------
    >>> chat = SLO(ttft=2.0, tpot=0.150)
    >>> chat
    SLO(ttft=2.0, tpot=0.15)
    >>> chat.bounds()
    {'ttft': 2.0, 'tpot': 0.15}
    >>> SLO(ttft=-1)
    Traceback (most recent call last):
        ...
    paceline.errors.ConfigError: SLO.ttft must be a positive, finite number of seconds, was -1
    """

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None
    itl: float | None = None

    def __post_init__(self) -> None:
        """Check each bound, and keep it as a float."""
        for field in fields(self):
            bound = getattr(self, field.name)
            if bound is not None:
                object.__setattr__(self, field.name, _seconds(field.name, bound))
        if not self.bounds():
            raise ConfigError(
                "SLO must bound at least one of ttft, tpot, e2e and itl, was empty: SLO(ttft=2.0)"
            )

    def bounds(self) -> dict[str, float]:
        """Return the bounds that were given, by name, in seconds."""
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: bound for name, bound in named if bound is not None}

    def to_toml(self) -> str:
        """Return the bounds as TOML."""
        return _toml.dump(self.bounds())

    @classmethod
    @typed()
    def from_toml(cls, text: str) -> SLO:
        """Read what :meth:`to_toml` wrote.

        Raises
        ------
        ConfigError
            If the text is not TOML, or names something that is no bound.
        """
        return _toml.build(cls, _toml.parse(text, "an SLO"), "an SLO")

    def __repr__(self) -> str:
        """Show only the bounds that were given."""
        return f"SLO({', '.join(f'{name}={bound!r}' for name, bound in self.bounds().items())})"


def _seconds(name: str, bound: Any) -> float:  # noqa: ANN401 - whatever the caller passed
    """Return `bound` as a float, or say why it is no duration."""
    is_number = isinstance(bound, Real) and not isinstance(bound, bool)
    if not is_number or not _check.is_number(bound) or bound <= 0:
        raise ConfigError(
            f"SLO.{name} must be a positive, finite number of seconds, was {_check.said(bound)}"
        )
    return float(bound)
