"""Words of a command line as values of the types that Python's signatures name."""

from __future__ import annotations

import dataclasses
import math
import tomllib
import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin

from paceline._toml import build
from paceline.errors import ConfigError, PolicyError

__all__ = ["typed_value"]


def typed_value(text: str, annotation: object, what: str) -> Any:  # noqa: ANN401 - as the annotation says
    """Return the value of a word.

    Numbers, `true` and `false`, `none` and the words of a Literal are written
    as they are, a part of a policy as a TOML table: `{kind = "swap", cpu_blocks = 512}`,
    a rule as in Python: `pick(min=inst.kv_tokens)`.

    Parameters
    ----------
    text
        The word.
    annotation
        The type of the value, or a union of types; the first that fits is used.
    what
        The name of the option, for errors.

    Raises
    ------
    PolicyError
        If it is none of those; the message says what would be right.

    Examples
    --------
    >>> typed_value("0.01", float, "watermark")
    0.01
    >>> typed_value("none", int | None, "max_num_seqs") is None
    True
    """
    options = get_args(annotation) if _is_union(annotation) else (annotation,)
    for option in options:
        found = _read(text, option)
        if found:
            return found[0]
    rule = any(_is_rule(option) for option in options)
    if rule and "(" in text:
        from paceline.policy.serialize import rule_from_text

        return rule_from_text(text, what)
    table = _table(text)
    parts = [option for option in options if dataclasses.is_dataclass(option) and not _is_rule(option)]
    if table is not None and parts:
        return _build(_called(table, parts), table, what)
    rules = " or ".join(dict.fromkeys(rule for option in options for rule in _rules(option)))
    raise PolicyError(f"{what} must be {rules}, was {text!r}")


def _is_union(annotation: object) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _is_rule(option: object) -> bool:
    """Whether an option is a rule that routes, which is written in the language of policies."""
    from paceline.policy.rules import Chain

    return isinstance(option, type) and issubclass(option, Chain)


def _read(text: str, option: object) -> tuple[Any, ...]:
    """Return the value as a tuple of one, or nothing where the word is none of that type."""
    if get_origin(option) is Literal:
        return tuple(word for word in get_args(option) if str(word) in (text, text.replace("-", "_")))
    if option is types.NoneType:
        return (None,) if text.lower() == "none" else ()
    if option is bool:
        return ({"true": True, "false": False}[text.lower()],) if text.lower() in ("true", "false") else ()
    if option is int:
        return _number(text, int)
    if option is float:
        return _number(text, float)
    return (text,) if option is str else ()


def _number(text: str, kind: Callable[[str], int | float]) -> tuple[Any, ...]:
    try:
        number = kind(text)
    except ValueError:
        return ()
    return (number,) if math.isfinite(number) else ()


def _table(text: str) -> dict[str, Any] | None:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _called(table: dict[str, Any], parts: list[Any]) -> Any:  # noqa: ANN401 - a dataclass
    """Return the class of the kind that the table names; the first if it names none."""
    for cls in parts:
        kind = cls.__dataclass_fields__.get("kind")
        if kind is not None and kind.default == table.get("kind"):
            return cls
    return parts[0]


def _build(cls: Any, table: dict[str, Any], what: str) -> Any:  # noqa: ANN401
    try:
        return build(cls, table, what)
    except (ConfigError, TypeError, ValueError) as error:
        raise PolicyError(str(error)) from error


def _rules(option: object) -> list[str]:
    """Return in words what an option takes."""
    if get_origin(option) is Literal:
        return [str(word) for word in get_args(option)]
    if _is_rule(option):
        return ["a rule as pick(min = …)"]
    if get_origin(option) is Callable:
        return []  # a Python function, which no command line can hold
    named = {types.NoneType: "none", bool: "true or false", int: "a whole number", float: "a number"}
    if isinstance(option, type) and option in named:
        return [named[option]]
    if isinstance(option, type) and dataclasses.is_dataclass(option):
        fields = ", ".join(f"{field.name} = …" for field in dataclasses.fields(option))
        return [f"a {option.__name__} as {{{fields}}}"]
    return [f"{option} (only in a policy file)"]
