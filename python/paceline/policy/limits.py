"""How large the parts of a policy may be.

An expression is evaluated for every request, at every step at which its value
may have changed, so a policy in use is far below these bounds. They keep what
grows faster than the text that builds it (an expression added to itself, forty
times over) from taking memory without bound, and nesting from running out of
stack: the engine reads JSON of at most 256 levels (``rust/core/src/config/nesting.rs``).
"""

from __future__ import annotations

from typing import Final

__all__ = ["MOST_CHARACTERS", "MOST_LEVELS", "MOST_PARTS", "MOST_RULES", "MOST_RULE_LEVELS"]

MOST_PARTS: Final = 1_000
"""Fields, constants and operators of one expression; a part that is used several times counts each time."""

MOST_LEVELS: Final = 100
"""Levels of an expression. A sum, product, ``&`` or ``|`` of many is one level, whatever its length."""

MOST_RULES: Final = 100
"""Rules in a rule, itself included; one that is used several times counts each time."""

MOST_RULE_LEVELS: Final = 16
"""Levels of rules, of `first_of` and `unless`."""

MOST_CHARACTERS: Final = 100_000
"""Characters of an expression or a rule in a file, a hundred for each part."""
