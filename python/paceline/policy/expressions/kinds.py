"""What an expression can stand for."""

from __future__ import annotations

from typing import Literal

__all__ = ["LABELS", "PHASES", "Kind", "named"]

Kind = Literal["number", "truth", "phase", "tenant", "role", "text"]
"""A number, a yes or no, one of three kinds of label, or the text that a label is compared with."""

LABELS: dict[Kind, str] = {
    "phase": 'compares with "prefill", "reasoning" or "answering"',
    "tenant": "compares with the name of a tenant",
    "role": "compares with the name of a pool",
}
"""Kinds that are names, and what each of them is good for."""

PHASES = ("prefill", "reasoning", "answering")
"""Phases of a request in order: no token yet, not through with reasoning, answering."""

_NAMES: dict[Kind, str] = {"number": "a number", "truth": "a condition (true or false)", "text": "a string"}


def named(kind: Kind) -> str:
    """Return a kind in words, for an error."""
    return _NAMES.get(kind, f"a {kind}")
