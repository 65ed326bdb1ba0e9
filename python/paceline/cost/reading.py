"""Cost models as TOML tables, and back."""

from __future__ import annotations

from typing import Any, TypeVar

from paceline._arguments import typed
from paceline._toml import build, table
from paceline.cost.affine import Affine
from paceline.cost.coverage import Coverage
from paceline.cost.efficiency import Efficiency
from paceline.cost.roofline import Roofline
from paceline.errors import ConfigError

__all__ = ["Cost", "cost_from_table", "cost_to_table", "only"]

#: Any cost model.
Cost = Affine | Roofline

C = TypeVar("C", Affine, Roofline)


@typed()
def cost_to_table(cost: object) -> dict[str, Any]:
    """Return a cost model as a TOML table with its ``kind``."""
    return {"kind": type(cost).__name__.lower(), **table(cost)}


@typed()
def cost_from_table(content: dict[str, Any], what: str) -> Cost:
    """Read what :func:`cost_to_table` wrote; ``what`` names the table in errors."""
    fields = {key: value for key, value in content.items() if key != "kind"}
    match content.get("kind"):
        case "affine":
            return build(Affine, fields, what)
        case "roofline":
            if "efficiency" in fields:
                fields["efficiency"] = build(Efficiency, fields["efficiency"], f"efficiency of {what}")
            if isinstance(fields.get("coverage"), dict):
                fields["coverage"] = build(Coverage, fields["coverage"], f"coverage of {what}")
            return build(Roofline, fields, what)
        case kind:
            raise ConfigError(f"kind of {what} must be affine or roofline, was {kind!r}")


def only(cls: type[C], content: dict[str, Any]) -> C:
    """Read a cost model that must be of one kind."""
    cost = cost_from_table(content, "a cost")
    if not isinstance(cost, cls):
        raise ConfigError(f"kind of a cost must be {cls.__name__.lower()}, was {type(cost).__name__.lower()}")
    return cost
