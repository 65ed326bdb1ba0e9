"""Lengths and messages of a span's texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

__all__ = ["continues", "messages_of", "tokens_of"]

# OpenAI's rule of thumb for English: one token is about four characters.
_CHARACTERS_A_TOKEN: Final = 4


def tokens_of(
    attributes: Mapping[str, Any], counts: Sequence[str], texts: Sequence[str]
) -> tuple[int | None, bool]:
    """Return a number of tokens, and whether it is estimated from a text.

    >>> tokens_of({"gen_ai.usage.prompt_tokens": "12"}, ["gen_ai.usage.prompt_tokens"], [])
    (12, False)
    >>> tokens_of({"gen_ai.output.text": "nine char"}, ["gen_ai.usage.output_tokens"], ["gen_ai.output.text"])
    (3, True)
    """
    for name in counts:
        value = attributes.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
            return int(value), False
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**63:
            return int(value), False
    for name in texts:
        value = attributes.get(name)
        if value:
            return -(-_characters(_parsed(value)) // _CHARACTERS_A_TOKEN), True
    return None, False


def messages_of(attributes: Mapping[str, Any], texts: Sequence[str]) -> list[Any] | None:
    """Return the messages of a prompt; None where the span has none."""
    value = next((attributes[name] for name in texts if attributes.get(name)), None)
    parsed = _parsed(value)
    return parsed if isinstance(parsed, list) else None


def continues(before: list[Any] | None, now: list[Any] | None, *, otherwise: bool) -> bool:
    """Whether a prompt begins with the messages of another; `otherwise` where one of them has none."""
    if before is None or now is None:
        return otherwise
    return len(now) > len(before) and now[: len(before)] == before


def _parsed(value: Any) -> Any:  # noqa: ANN401
    """Return what a text in JSON holds; other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError):
        return value


def _characters(value: Any) -> int:  # noqa: ANN401
    """Count the characters of the contents in a tree of messages, without names of roles and types."""
    total, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            waiting.extend(part for key, part in one.items() if key not in ("role", "type", "id"))
    return total
