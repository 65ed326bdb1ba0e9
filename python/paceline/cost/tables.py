"""A cost model as a TOML table that names its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline._arguments import typed
from paceline._check import said
from paceline._toml import table
from paceline.errors import ConfigError

__all__ = ["cost_to_table", "fields_of"]


@typed()
def cost_to_table(cost: object) -> dict[str, Any]:
    """Return a cost model as a TOML table with its ``kind``."""
    return {"kind": type(cost).__name__.lower(), **table(cost)}


def fields_of(content: Mapping[str, Any], kind: str, what: str) -> dict[str, Any]:
    """Return the fields of a table that must be of one kind; ``what`` names the table in errors.

    Raises
    ------
    ConfigError
        If the table is of another kind, or of none.
    """
    if content.get("kind") != kind:
        raise ConfigError(f"kind of {what} must be {kind}, was {said(content.get('kind'))}")
    return {key: value for key, value in content.items() if key != "kind"}
