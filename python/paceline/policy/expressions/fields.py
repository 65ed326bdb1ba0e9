"""What can be read off requests, instances and objectives: names, kinds and meanings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline.policy.expressions.kinds import Kind

__all__ = ["FIELDS", "Meaning", "define", "meaning_of"]

Takes = Literal["nothing", "request", "class"]
"""What stands in parentheses behind a field's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """A field.

    Attributes
    ----------
    space
        Whose field it is: ``req``, ``inst``, ``slo`` or ``oracle``.
    name
        Its name in expressions.
    wire
        The engine's name of it, without what comes before the point.
    kind
        What it stands for.
    unit
        ``s``, ``tokens``, ``blocks`` and so on; empty where there is none.
    text
        What it means.
    drifts
        Whether it changes with time or tokens, so that a queue key made of it
        must say how often it is looked at.
    takes
        What it is called with; a field that takes the request depends on it.
    """

    space: str
    name: str
    wire: str
    kind: Kind
    unit: str
    text: str
    drifts: bool
    takes: Takes


FIELDS: dict[tuple[str, str], Meaning] = {}
"""All fields by space and name, in the order in which they are documented."""


def define(meaning: Meaning) -> None:
    """Enter a field."""
    FIELDS[meaning.space, meaning.name] = meaning


def meaning_of(space: str, name: str) -> Meaning:
    """Return what a field means; ``inst.here`` and ``inst.there`` have the fields of ``inst``."""
    return FIELDS[space.partition(".")[0], name]
