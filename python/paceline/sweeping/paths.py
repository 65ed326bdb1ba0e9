"""Fields inside nested tables, named by dotted paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline._check import said
from paceline._toml import close_matches
from paceline.errors import ConfigError

__all__ = ["with_field"]


def with_field(content: Any, path: Sequence[str], value: object, what: str) -> Any:  # noqa: ANN401 - TOML
    """Return a copy of nested tables with one field set; None removes it, so that its default holds.

    Parameters
    ----------
    content
        Tables, lists of tables and values, as TOML has them.
    path
        Names of tables and fields; in a list the index of an element, or ``*`` for all elements.
    value
        The field's value.
    what
        The whole path, for errors.

    Raises
    ------
    ConfigError
        If the path leads into something that is no table and no list, or a list has no such element.

    Examples
    --------
    >>> with_field({"instances": [{"gpu": "a"}, {}]}, ["instances", "*", "gpu"], "b", "…")
    {'instances': [{'gpu': 'b'}, {'gpu': 'b'}]}
    """
    name, rest = path[0], path[1:]
    if isinstance(content, list):
        if name != "*" and not (name.isdecimal() and int(name) < len(content)):
            raise ConfigError(
                f"{what}: {name!r} must be an index below {len(content)}, or * for all elements of the list"
            )
        return [
            (with_field(each, rest, value, what) if rest else value)
            if name == "*" or index == int(name)
            else each
            for index, each in enumerate(content)
        ]
    if not isinstance(content, dict):
        raise ConfigError(f"{what}: {name!r} must be a field of a table, and {said(content)} is none")
    if rest:
        inner = content.get(name, {})
        if inner == {} and rest[0] in ("*", "0"):
            raise ConfigError(f"{what}: there is no list {name!r}{close_matches(name, content)}")
        return {**content, name: with_field(inner, rest, value, what)}
    if value is None:
        return {key: each for key, each in content.items() if key != name}
    return {**content, name: value}
