"""Cost models read from TOML tables of any kind."""

from __future__ import annotations

from typing import Any

from paceline._arguments import typed
from paceline.cost.affine import Affine
from paceline.cost.roofline import Roofline
from paceline.errors import ConfigError

__all__ = ["Cost", "cost_from_table"]

#: Any cost model.
Cost = Affine | Roofline


@typed()
def cost_from_table(content: dict[str, Any], what: str) -> Cost:
    """Read what :func:`~paceline.cost.tables.cost_to_table` wrote; ``what`` names the table in errors."""
    match content.get("kind"):
        case "affine":
            return Affine.from_table(content, what)
        case "roofline":
            return Roofline.from_table(content, what)
        case kind:
            raise ConfigError(f"kind of {what} must be affine or roofline, was {kind!r}")
