"""Whole numbers, as callers without a type checker may hand them in."""

from __future__ import annotations

from typing import Any

__all__ = ["is_whole"]


def is_whole(value: Any) -> bool:  # noqa: ANN401
    """Say whether this is an int, and not a truth value or a float that looks like one."""
    return isinstance(value, int) and not isinstance(value, bool)
