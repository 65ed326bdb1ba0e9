"""Ports of single instances, and media of single pairs of instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline import _check
from paceline._arguments import typed_fields
from paceline.deployment.medium import Medium, loaded, medium_of
from paceline.errors import ConfigError

__all__ = ["MOST_INSTANCES", "Pair", "Port"]

MOST_INSTANCES = 2**32 - 1
"""One more than the largest number of an instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(but=("inner", "outer"))
class Port:
    """The ports of one instance, where they differ from those of the others.

    Parameters
    ----------
    instance
        The instance, counted from 0.
    outer, inner
        Its port to instances of other nodes, and of its node; a :class:`Medium` or the name of a link. None:
        that of the others.

    Raises
    ------
    ConfigError
        If neither is given, or one is something else.

    Examples
    --------
    >>> Port(instance=3, outer="ethernet-25").outer
    'ethernet-25'
    """

    instance: int
    outer: str | Medium | None = None
    inner: str | Medium | None = None

    def __post_init__(self) -> None:
        _check.count("instance of a Port", self.instance, least=0, most=MOST_INSTANCES)
        if self.outer is None and self.inner is None:
            raise ConfigError("a Port must have an outer or an inner medium, had none")
        for name in ("outer", "inner"):
            medium_of(getattr(self, name), f"{name} of a Port")

    def to_wire(self) -> dict[str, Any]:
        """Return the ports as the engine reads them."""
        given = {name: getattr(self, name) for name in ("inner", "outer")}
        media = {name: loaded(medium).to_wire() for name, medium in given.items() if medium is not None}
        return {"instance": self.instance, **media}


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(but=("medium",))
class Pair:
    """A medium that only transfers from one instance to another cross, in place of their ports.

    Parameters
    ----------
    source, target
        The sender and the receiver, counted from 0. The other direction is another pair.
    medium
        A :class:`Medium` or the name of a link.

    Raises
    ------
    ConfigError
        If the two are one, or the medium is something else.

    Examples
    --------
    >>> Pair(source=0, target=1, medium="nvlink-a100").target
    1
    """

    source: int
    target: int
    medium: str | Medium

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            _check.count(f"{name} of a Pair", getattr(self, name), least=0, most=MOST_INSTANCES)
        if self.source == self.target:
            raise ConfigError(f"source and target of a Pair must be two instances, were both {self.source}")
        if medium_of(self.medium, "medium of a Pair") is None:
            raise ConfigError("medium of a Pair must be a Medium or the name of a link, was None")

    def to_wire(self) -> dict[str, Any]:
        """Return the pair as the engine reads it."""
        return {"source": self.source, "target": self.target, "speed": loaded(self.medium).to_wire()}
