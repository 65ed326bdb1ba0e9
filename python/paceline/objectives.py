"""Service level objectives: bounds on the latencies of a request.

An :class:`SLO` holds upper bounds on a request's latencies. A request meets it
when it finished and stays within *every* bound given, as vLLM's and DistServe's
goodput do; bounds that are left out are not checked. :class:`Percentiles` bounds
percentiles over all requests, and over all tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from paceline import _check, _toml
from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError

__all__ = ["SLO", "Percentiles"]


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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
@typed_fields(but=("ttft", "tpot", "e2e", "queueing", "tbt"))
class Percentiles:
    """Bounds on percentiles of latencies, in seconds, by percentile from above 0 to 100.

    Sarathi-Serve's capacity is the highest rate at which the P99 of the time between tokens is within a bound
    while the median scheduling delay is at most 2 s (arXiv:2403.02310, section 5.1):
    ``Percentiles(tbt={99: 0.1}, queueing={50: 2.0})``.

    Attributes
    ----------
    ttft, tpot, e2e
        As of :class:`SLO`, over all requests. A request that was rejected or did not finish is infinite.
    queueing
        From a request's arrival to the start of its first step, over all requests: the scheduling delay.
    tbt
        Time between tokens, over the gaps of all requests together: a long answer counts for each of its
        tokens, and the wait of a preempted request is a gap. The gaps of a request that was rejected or did
        not finish are infinite. Known within 0.4% (``result.itl.relative_error``).

    Raises
    ------
    ConfigError
        If a bound is not a positive, finite number, a percentile is out of range, or no bound is given.

    Examples
    --------
    >>> sarathi = Percentiles(tbt={99: 0.1}, queueing={50: 2.0})
    >>> sarathi
    Percentiles(queueing={50: 2.0}, tbt={99: 0.1})
    >>> sarathi.bounds()
    {'p50_queueing': 2.0, 'p99_tbt': 0.1}
    """

    ttft: Mapping[float, float] | None = None
    tpot: Mapping[float, float] | None = None
    e2e: Mapping[float, float] | None = None
    queueing: Mapping[float, float] | None = None
    tbt: Mapping[float, float] | None = None

    def __post_init__(self) -> None:
        """Check each percentile and bound, and keep the bounds as floats."""
        for field in fields(self):
            given = getattr(self, field.name)
            if given is not None:
                object.__setattr__(self, field.name, _by_percentile(field.name, given))
        if not self.bounds():
            raise ConfigError(
                "Percentiles must bound at least one of ttft, tpot, e2e, queueing and tbt, was empty: "
                "Percentiles(tbt={99: 0.1})"
            )

    def parts(self) -> list[tuple[str, float, float]]:
        """Return the name of each latency with a percentile and its bound."""
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return [(name, at, bound) for name, given in named for at, bound in (given or {}).items()]

    def bounds(self) -> dict[str, float]:
        """Return the bounds that were given, in seconds, by a name such as ``p99_tbt``."""
        return {f"p{at:.10g}_{name}": bound for name, at, bound in self.parts()}

    def __repr__(self) -> str:
        """Show only the bounds that were given."""
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return f"Percentiles({', '.join(f'{name}={given!r}' for name, given in named if given)})"


def _by_percentile(name: str, given: object) -> dict[float, float]:
    """Return bounds by percentile, or say what is wrong."""
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"Percentiles.{name} must be seconds by percentile, such as {{99: 0.1}}, was {_check.said(given)}"
        )
    for at in given:
        if not _check.is_number(at) or not 0 < at <= 100:
            raise ConfigError(
                f"Percentiles.{name} must have percentiles above 0 and at most 100, was {_check.said(at)}"
            )
    return {at: _seconds(name, given[at], "Percentiles") for at in sorted(given)}


def _seconds(name: str, bound: Any, of: str = "SLO") -> float:  # noqa: ANN401 - whatever the caller passed
    """Return `bound` as a float, or say why it is no duration."""
    is_number = isinstance(bound, Real) and not isinstance(bound, bool)
    if not is_number or not _check.is_number(bound) or bound <= 0:
        raise ConfigError(
            f"{of}.{name} must be a positive, finite number of seconds, was {_check.said(bound)}"
        )
    return float(bound)
