"""The kinds of values that expressions have."""

from __future__ import annotations

from typing import Literal

__all__ = ["LABELS", "PHASES", "Kind", "named"]

Kind = Literal["number", "truth", "phase", "tenant", "role", "text"]
"""A number, a condition, one of three kinds of name, or the text that a name is compared with."""

LABELS: dict[Kind, str] = {
    "phase": 'compares with "prefill", "reasoning" or "answering"',
    "tenant": "compares with the name of a tenant",
    "role": "compares with the name of a pool",
}
"""Kinds that are names, and what each can be compared with."""

PHASES = ("prefill", "reasoning", "answering")
"""Phases of a request in order: before its first token, before its last reasoning token, answering."""

_NAMES: dict[Kind, str] = {"number": "a number", "truth": "a condition (true or false)", "text": "a string"}


def named(kind: Kind) -> str:
    """Return a kind in words, for an error."""
    return _NAMES.get(kind, f"a {kind}")
