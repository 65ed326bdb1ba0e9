"""Limits of a scheduler's step: numbers, or expressions that are evaluated for each step."""

from __future__ import annotations

import math

from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.expressions.bounds import bounds
from paceline.policy.expressions.fields import meaning_of
from paceline.policy.expressions.scope import Scope, number
from paceline.policy.expressions.tree import Expr, Field

__all__ = ["UNCHANGING", "bucket", "least_tokens", "most_tokens", "step_tokens", "threshold"]

MOST = 2**32 - 2
"""The largest number that the engine reads."""

UNCHANGING = frozenset(
    (
        *("arrival", "prompt_tokens", "priority", "score", "tenant", "prefill_time"),
        *("output_tokens", "reasoning_tokens"),
    )
)
"""Fields of `req` and `oracle` that are the same from the arrival of a request to its end."""


def step_tokens(value: object) -> object:
    """Check `max_num_batched_tokens`: a number, None, or an expression with a largest value.

    Raises
    ------
    PolicyError
        Names the field that no step can read, or the value that is out of range.
    """
    if not isinstance(value, Expr):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and 1 <= value <= MOST):  # type: ignore[operator]
            raise PolicyError(
                f"max_num_batched_tokens must be 1 to {MOST}, an expression over inst, or None for the "
                f"default, was {said(value)}"
            )
        return value
    checked = number(value, "max_num_batched_tokens", Scope.STEP)
    low, high = bounds(checked)
    if math.isinf(high):
        raise PolicyError(
            "max_num_batched_tokens must have a largest value, which memory is reserved for: "
            f"minimum({checked!r}, 8192), was {checked!r}"
        )
    if not 1 <= high <= MOST or math.isnan(low):
        raise PolicyError(
            f"max_num_batched_tokens must be at most 1 to {MOST}, was {checked!r}, at most {said(high)}"
        )
    return checked


def threshold(value: object) -> object:
    """Check `long_prefill_token_threshold`: a number, or an expression.

    Raises
    ------
    PolicyError
        Names the field that no step can read, or the value that is out of range.
    """
    if isinstance(value, Expr):
        return number(value, "long_prefill_token_threshold", Scope.STEP)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise PolicyError(
            "long_prefill_token_threshold must be 0 (no limit) or more tokens, below 2**32 - 1, or an "
            f"expression over inst, was {said(value)}"
        )
    return value


def bucket(value: object) -> Expr:
    """Check `bucket`: a number of fields of a request that never change.

    Raises
    ------
    PolicyError
        Names the field that changes while the request waits or runs.
    """
    checked = number(value, "bucket", Scope.QUEUE)
    for part in checked.walk():
        if isinstance(part, Field) and part.space in ("req", "oracle") and part.name not in UNCHANGING:
            raise PolicyError(
                f"bucket must read fields of a request that never change, such as req.prompt_tokens; "
                f"{part!r} does ({meaning_of(part.space, part.name).text.rstrip('.').lower()})"
            )
    return checked


def most_tokens(value: int | Expr) -> int:
    """Return the most tokens of a step."""
    return math.floor(bounds(value)[1]) if isinstance(value, Expr) else value


def least_tokens(value: Expr) -> int:
    """Return the fewest tokens of a step: the expression's smallest value, and at least 1."""
    low = bounds(value)[0]
    return min(max(1, math.floor(low)), most_tokens(value)) if math.isfinite(low) else 1
