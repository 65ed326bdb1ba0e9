"""The functions that make the shipped policies, by name: only the module of that name is imported."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, get_type_hints

from paceline import policies

if TYPE_CHECKING:
    from paceline.policy import Policy

__all__ = ["maker", "names"]


def names() -> tuple[str, ...]:
    """Return the names of the shipped policies, as Python has them.

    Examples
    --------
    >>> "layered_prefill" in names()
    True
    """
    # Classes of settings, such as PascalReading, are beside the functions.
    return tuple(name for name in policies.__all__ if name.islower())


def maker(name: str) -> Callable[..., Policy]:
    """Return the function that makes a policy.

    Parameters
    ----------
    name
        One of `names`.

    Examples
    --------
    >>> maker("vllm")().name
    'vllm'
    """
    from paceline.policy import Policy

    make = getattr(policies, name)
    assert inspect.isfunction(make), "Invariant: the catalog has functions"
    assert get_type_hints(make).get("return") is Policy, "Invariant: they make policies"
    return make
