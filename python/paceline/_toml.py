"""Frozen dataclasses as TOML tables, and back, with errors that name the place."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from paceline._check import said
from paceline.errors import ConfigError

__all__ = ["build", "close_matches", "dump", "parse", "table"]

T = TypeVar("T")


def table(value: object) -> dict[str, Any]:
    """Return a dataclass as a TOML table: its fields in order, without those that are ``None``."""
    if not dataclasses.is_dataclass(value):
        raise TypeError(f"only dataclasses become tables, not {type(value).__name__}")
    fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return {
        name: table(part) if dataclasses.is_dataclass(part) else part
        for name, part in fields
        if part is not None
    }


def dump(content: Mapping[str, Any]) -> str:
    """Return a table as the text of a TOML file."""
    return msgspec.toml.encode(content).decode()


def parse(text: str, what: str) -> dict[str, Any]:
    """Read the text of a TOML file; ``what`` names it in the error."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ConfigError(f"{what} must be TOML, was nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{what} must be TOML: {error}") from error
    except ValueError as error:
        # Python refuses to convert more than 4,300 digits; TOML has whole numbers of 64 bits.
        raise ConfigError(f"{what} must be TOML, had a whole number of too many digits") from error


def build(cls: type[T], content: Mapping[str, Any], what: str) -> T:
    """Make a dataclass from a table with its fields as keys; ``what`` names the table in errors.

    A field whose metadata names a dataclass as ``table`` is a table of its own.
    """
    if not isinstance(content, Mapping):
        raise ConfigError(f"{what} must be a table, was {said(content)}")
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in content:
        if key not in fields:
            raise ConfigError(f"{what} has no field {key!r}{close_matches(key, fields)}")
    needed = [
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    missing = [name for name in needed if name not in content]
    if missing:
        raise ConfigError(f"{what} lacks {', '.join(missing)}")
    tables = {
        name: build(field.metadata["table"], content[name], f"{name} of {what}")
        for name, field in fields.items()
        if "table" in field.metadata and name in content
    }
    return cls(**{**content, **tables})


def close_matches(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: names close to the given one, else all names."""
    known = sorted(known)
    asked = str(name).lower()
    longer = [each for each in known if asked and each.startswith(asked)]
    near = difflib.get_close_matches(asked, known, n=3, cutoff=0.5)
    # A name that is cut short is meant more often than one with other letters: h100 is h100-sxm, not h200.
    close = list(dict.fromkeys([*sorted(longer, key=len), *near]))[:3]
    if close:
        return f"; close to it: {', '.join(close)}"
    return f"; there are: {', '.join(known)}"
