"""A change of an instance's pool, as a result keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline._arguments import typed, typed_fields
from paceline.errors import ResultError

__all__ = ["Flip", "flips_from_json"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(ResultError)
class Flip:
    """A change of an instance's pool.

    Attributes
    ----------
    ticks, instance
        When, and of which instance.
    before, after
        Its pools.
    cause
        The rule that flipped it, by its name in the policy; ``condition`` or
        ``delay`` if it joined the pool that it was on its way to; ``set_pool``
        if a caller of `paceline.Simulation.set_pool` did.
    request
        The row of the request about which the rule was asked, if there was one.
    """

    ticks: int
    instance: int
    before: str
    after: str
    cause: str
    request: int | None = None

    @classmethod
    @typed(ResultError)
    def from_dict(cls, fields: Mapping[str, Any]) -> Flip:
        """Build from decoded JSON; unknown fields are ignored.

        Raises
        ------
        ResultError
            If a field is missing.
        """
        try:
            return cls(**{name: fields[name] for name in cls.__dataclass_fields__})
        except KeyError as error:
            raise ResultError(f"a flip must have {error}, had {', '.join(map(str, fields))}") from error


def flips_from_json(text: bytes, pools: tuple[str, ...]) -> tuple[Flip, ...]:
    """Read the engine's changes of pools; ``pools`` has the names by code."""
    return tuple(
        Flip(
            ticks=ticks,
            instance=instance,
            before=pools[before],
            after=pools[after],
            cause=cause,
            request=request,
        )
        for ticks, instance, before, after, cause, request in json.loads(text)
    )
