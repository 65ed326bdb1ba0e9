"""The fields of requests, instances and objectives that expressions can read: names, kinds, meanings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline.policy.expressions.kinds import Kind

__all__ = ["FIELDS", "Meaning", "define", "meaning_of"]

Takes = Literal["nothing", "request", "class", "column", "gauge"]
"""What a field is called with, in parentheses behind its name."""

Source = Literal["kept", "reported", "known"]
"""Where a router has a field of an instance from.

``kept``: the router counts it at its own decisions and as requests end, or a monitor reads it.
``reported``: the instance tells it. ``known``: it is fixed, or computed at the
decision.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """The declaration of a field.

    Attributes
    ----------
    space
        The namespace of the field: ``req``, ``inst``, ``slo``, ``oracle`` or ``block``.
    name
        Its name in expressions.
    wire
        The engine's name of it, without the namespace.
    kind
        The kind of its value.
    unit
        ``s``, ``tokens``, ``blocks`` and so on; empty where there is none.
    text
        Its meaning, in a sentence.
    drifts
        Whether it changes with time or tokens, so that a queue key made of it
        needs a `Refresh`.
    takes
        What it is called with; a field that takes the request depends on it.
    source
        For a field of an instance, where a router has it from.
    """

    space: str
    name: str
    wire: str
    kind: Kind
    unit: str
    text: str
    drifts: bool
    takes: Takes
    source: Source = "reported"


FIELDS: dict[tuple[str, str], Meaning] = {}
"""All fields by namespace and name, in the order in which they are documented."""


def define(meaning: Meaning) -> None:
    """Add the declaration of a field."""
    FIELDS[meaning.space, meaning.name] = meaning


def meaning_of(space: str, name: str) -> Meaning:
    """Return the declaration of a field; ``inst.here`` and ``inst.there`` have the fields of ``inst``."""
    return FIELDS[space.partition(".")[0], name]
