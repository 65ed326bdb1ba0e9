"""Measured curves of the experts of a layer that a batch needs."""

from __future__ import annotations

import math
import tomllib
from bisect import bisect_left
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline._toml import build, close_matches
from paceline.errors import ConfigError

__all__ = ["Coverage"]

_FOLDER = resources.files("paceline.catalog") / "coverage"
_LONGEST = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Coverage:
    """A measured curve: the share of a layer's experts that a batch of so many tokens is routed to.

    Tokens of one conversation, and of one topic, are routed to the same experts more often than by chance, so
    measured curves are below :meth:`Experts.expected <paceline.model.Experts.expected>`. A curve belongs to
    the model and the traffic that it was measured on.

    Parameters
    ----------
    tokens
        Points of the curve, rising; the first is 1, where the share is that of ``per_token`` experts, and
        the last at most 65,536.
    share
        Share of the experts at each point, above 0, at most 1, and never falling.
    source
        Where the numbers come from, in a line.

    Raises
    ------
    ConfigError
        If points or shares break these rules.

    Notes
    -----
    Between points the share is linear in the logarithm of the tokens. Beyond the last point it is constant.

    Examples
    --------
    >>> measured = Coverage.load("qwen3-30b-a3b-sharegpt")
    >>> [measured.at(n) for n in (1, 32, 10_000)]
    [0.0625, 0.547, 0.98]
    """

    tokens: tuple[int, ...]
    share: tuple[float, ...]
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("tokens", "share"):
            value = getattr(self, name)
            if not isinstance(value, tuple | list) or not value:
                raise ConfigError(f"{name} of a Coverage must be numbers, one or more, was {value!r}")
            object.__setattr__(self, name, tuple(value))
        for value in self.tokens:
            _check.count("tokens of a Coverage", value)
        for share in self.share:
            _check.fraction("share of a Coverage", share)
        if len(self.tokens) != len(self.share):
            raise ConfigError(
                f"share of a Coverage must be as many as its {len(self.tokens)} tokens, was {len(self.share)}"
            )
        if self.tokens[0] != 1 or self.tokens[-1] > _LONGEST:
            raise ConfigError(
                f"tokens of a Coverage must go from 1 to at most {_LONGEST}, "
                f"was {self.tokens[0]} to {self.tokens[-1]}"
            )
        for name, strict in (("tokens", True), ("share", False)):
            values = getattr(self, name)
            for before, after in pairwise(values):
                if after < before or (strict and after == before):
                    rule = "rise" if strict else "never fall"
                    raise ConfigError(f"{name} of a Coverage must {rule}, was {after} after {before}")

    @classmethod
    @typed()
    def load(cls, name: str) -> Coverage:
        """Return a curve that comes with Paceline.

        Raises
        ------
        ConfigError
            If there is no curve of that name.
        """
        known = [file.name.removesuffix(".toml") for file in _FOLDER.iterdir()]
        if name not in known:
            raise ConfigError(f"there is no coverage {name!r}{close_matches(name, known)}")
        content = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
        return build(cls, content, f"coverage {name!r}")

    @typed()
    def at(self, tokens: int) -> float:
        """Return the share of a layer's experts that ``tokens`` tokens need."""
        _check.count("tokens", tokens)
        index = bisect_left(self.tokens, tokens)
        if index == len(self.tokens):
            return self.share[-1]
        if self.tokens[index] == tokens:
            return self.share[index]
        low, high = self.tokens[index - 1], self.tokens[index]
        part = math.log(tokens / low) / math.log(high / low)
        return self.share[index - 1] + part * (self.share[index] - self.share[index - 1])
