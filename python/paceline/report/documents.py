"""Documents that a report takes: what `paceline capacity --json` and `paceline compare --json` print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from paceline.errors import ConfigError

__all__ = ["CapacityDocument", "ComparisonDocument", "checked"]

T = TypeVar("T", bound=msgspec.Struct)


class CapacityPoint(msgspec.Struct):
    """An evaluated rate."""

    rate: float
    gpu_rate: float
    attainment: float
    passes: bool


class CapacityDocument(msgspec.Struct):
    """A search for the highest rate."""

    curve: list[CapacityPoint]
    slo: dict[str, float] | None = None
    target: float | None = None
    rate: float | None = None
    gpu_rate: float | None = None
    fails_at: float | None = None
    highest: float | None = None
    lowest: float | None = None
    bound: str | None = None


class ComparisonRow(msgspec.Struct):
    """A figure of a policy."""

    policy: str
    metric: str
    figure: str
    value: float | None
    low: float | None
    high: float | None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    better: float | None = None
    pairs: int | None = None


class ComparisonDocument(msgspec.Struct):
    """A comparison of policies."""

    baseline: str
    method: str
    confidence: float
    warmup_s: float
    warmup_requests: list[int]
    requests: list[int]
    table: list[ComparisonRow]


def checked(found: object, kind: type[T], what: str, right: str, rows: str) -> dict[str, Any]:
    """Return a document, or what `to_dict` of an object gives.

    Parameters
    ----------
    found
        The document or the object.
    kind
        The fields that it must have. Others are kept.
    what, right
        Its name, and what it must be, for errors.
    rows
        The field that must not be empty.

    Raises
    ------
    ConfigError
        If it is neither, or a field is missing, of another type, or has no rows.
    """
    document = found if isinstance(found, Mapping) else getattr(found, "to_dict", dict)()
    try:
        msgspec.convert(dict(document), kind)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        detail = str(error) if document else f"was {type(found).__name__}"
        raise ConfigError(f"{what} must be {right}: {detail}") from error
    if not document[rows]:
        raise ConfigError(f"{what} must be {right}: {rows} has no rows")
    return dict(document)
