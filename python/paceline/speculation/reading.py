"""Speculation as a TOML table, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline._toml import build, table
from paceline.cost import cost_from_table, cost_to_table
from paceline.errors import ConfigError
from paceline.model import Model
from paceline.speculation.acceptance import AcceptanceLength, ByPosition, Listed
from paceline.speculation.column import Acceptance, FromColumn
from paceline.speculation.draft import Draft
from paceline.speculation.speculation import Speculation

__all__ = ["speculation_from_table", "speculation_to_table"]

_RULES = {"length": AcceptanceLength, "by_position": ByPosition, "listed": Listed, "column": FromColumn}


def speculation_to_table(speculation: Speculation) -> dict[str, Any]:
    """Return a speculation as a TOML table; its acceptance has a ``kind``."""
    content = table(speculation)
    kind = next(kind for kind, rule in _RULES.items() if isinstance(speculation.acceptance, rule))
    content["acceptance"] = {"kind": kind, **content["acceptance"]}
    if speculation.draft is not None and speculation.draft.cost is not None:
        content["draft"]["cost"] = cost_to_table(speculation.draft.cost)
    return content


def speculation_from_table(content: Mapping[str, Any], what: str) -> Speculation:
    """Read what :func:`speculation_to_table` wrote; ``what`` names the table in errors.

    Raises
    ------
    ConfigError
        If it is not a table of a speculation.
    """
    fields = dict(content)
    if isinstance(fields.get("acceptance"), dict):
        fields["acceptance"] = _acceptance(fields["acceptance"], f"acceptance of {what}")
    if isinstance(fields.get("proposals"), dict):
        fields["proposals"] = _listed(fields["proposals"], f"proposals of {what}")
    if isinstance(fields.get("draft"), dict):
        fields["draft"] = _draft(fields["draft"], f"draft of {what}")
    if isinstance(fields.get("tokens_by_batch"), list):
        pairs = fields["tokens_by_batch"]
        fields["tokens_by_batch"] = tuple(tuple(pair) if isinstance(pair, list) else pair for pair in pairs)
    return build(Speculation, fields, what)


def _acceptance(content: dict[str, Any], what: str) -> Acceptance:
    fields = dict(content)
    kind = fields.pop("kind", None)
    if kind not in _RULES:
        raise ConfigError(f"kind of {what} must be one of {', '.join(_RULES)}, was {kind!r}")
    if kind == "listed":
        return _listed(fields, what)
    if isinstance(fields.get("rates"), list):
        fields["rates"] = tuple(fields["rates"])
    return build(_RULES[kind], fields, what)


def _listed(content: dict[str, Any], what: str) -> Listed:
    values = content.get("values")
    return build(Listed, {**content, "values": tuple(values)} if isinstance(values, list) else content, what)


def _draft(content: dict[str, Any], what: str) -> Draft:
    fields = dict(content)
    if isinstance(fields.get("model"), dict):
        fields["model"] = build(Model, fields["model"], f"model of {what}")
    if isinstance(fields.get("cost"), dict):
        fields["cost"] = cost_from_table(fields["cost"], f"cost of {what}")
    return build(Draft, fields, what)
