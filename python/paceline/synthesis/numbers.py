"""Whole numbers and rates, as callers without a type checker may hand them in."""

from __future__ import annotations

import math
from typing import Any

from paceline._check import said
from paceline.errors import ConfigError

__all__ = ["check_rate", "is_whole"]


def is_whole(value: Any) -> bool:  # noqa: ANN401
    """Whether a value is an int, and neither a truth value nor a float."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_rate(rate: float) -> None:
    """Refuse a rate that is not positive; infinite is allowed, and means all at once."""
    if math.isnan(rate) or rate <= 0:
        raise ConfigError(f"rate must be requests per second above 0, was {said(rate)}")
