"""Links as TOML tables, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline import _check
from paceline._toml import build
from paceline.deployment.links import Links
from paceline.deployment.medium import medium_from, medium_table
from paceline.deployment.ports import Pair, Port
from paceline.errors import ConfigError

__all__ = ["links_from_table", "links_table"]


def links_table(links: Links) -> dict[str, Any]:
    """Return links as a TOML table, without the fields that have their defaults."""
    content: dict[str, Any] = {}
    if links.gbps is not None:
        content |= {"gbps": links.gbps, "latency_s": links.latency_s}
    for name in ("port", "inner", "uplink", "fabric"):
        given = getattr(links, name)
        if given is not None:
            content[name] = medium_table(given)
    if links.nodes is not None:
        content["nodes"] = [list(node) for node in links.nodes]
    if links.per_node is not None:
        content["per_node"] = links.per_node
    if links.ports:
        content["ports"] = [
            {"instance": port.instance}
            | {
                name: medium_table(given)
                for name, given in (("outer", port.outer), ("inner", port.inner))
                if given is not None
            }
            for port in links.ports
        ]
    if links.pairs:
        content["pairs"] = [
            {"source": pair.source, "target": pair.target, "medium": medium_table(pair.medium)}
            for pair in links.pairs
        ]
    return content


def links_from_table(content: object, what: str) -> Links:
    """Return the links of a TOML table; ``what`` names it in errors."""
    if not isinstance(content, Mapping):
        raise ConfigError(f"{what} must be a table, was {_check.said(content)}")
    fields = _with_media(content, ("port", "inner", "uplink", "fabric"), what)
    for name, kind, media in (("ports", Port, ("outer", "inner")), ("pairs", Pair, ("medium",))):
        given = fields.get(name, [])
        if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
            raise ConfigError(f"{name} of {what} must be an array of tables, was {_check.said(given)}")
        if given:
            place = f"a table of {name} of {what}"
            fields[name] = tuple(build(kind, _with_media(each, media, place), place) for each in given)
    return build(Links, fields, what)


def _with_media(content: Mapping[str, Any], names: tuple[str, ...], what: str) -> dict[str, Any]:
    read = {name: medium_from(content[name], f"{name} of {what}") for name in names if name in content}
    return {**content, **read}
