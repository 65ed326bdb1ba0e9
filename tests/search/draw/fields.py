"""All fields of expressions, each with a way to draw a constant near its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import field_values
from field_values import Values, values_of
from paceline.policy.expressions.fields import Meaning
from search.draw.source import Source

TICKS_PER_SECOND = 10**12

Near = Callable[[Source], float]
Fields = dict[str, Near]


def _tokens(source: Source) -> float:
    return source.whole(0, 60)


def _count(source: Source) -> float:
    return source.whole(0, 4)


def _few(source: Source) -> float:
    return source.whole(0, 2)


def _flag(source: Source) -> float:
    return source.whole(0, 1)


def _blocks(source: Source) -> float:
    return source.whole(0, 30)


def _span(source: Source) -> float:
    return source.ticks(-20, 150) / TICKS_PER_SECOND


def _moment(source: Source) -> float:
    return source.ticks(0, 600) / TICKS_PER_SECOND


def _share(source: Source) -> float:
    return source.pick((0.0, 0.25, 0.5, 0.9))


_NEAR: dict[Values, Near] = {
    "tokens": _tokens,
    "blocks": _blocks,
    "count": _count,
    "few": _few,
    "flag": _flag,
    "span": _span,
    "moment": _moment,
    "share": _share,
}


def _near(fields: Mapping[str, Meaning]) -> Fields:
    return {name: _NEAR[values_of(meaning)] for name, meaning in fields.items()}


STEADY: Fields = _near({name: of for name, of in field_values.OF_REQUEST.items() if not of.drifts})
DRIFTING: Fields = _near({name: of for name, of in field_values.OF_REQUEST.items() if of.drifts})
OF_REQUEST: Fields = {**STEADY, **DRIFTING}
# A field that is reset when a class is entered has no meaning in that class's condition.
IN_CLASSES: Fields = {
    name: near for name, near in OF_REQUEST.items() if name not in ("req.joined_s", "req.quanta", "req.level")
}
OF_BLOCK: Fields = _near(field_values.OF_BLOCK)
STEADY_OF_BLOCK: Fields = {name: near for name, near in OF_BLOCK.items() if name != "block.idle_s"}
OF_INSTANCE: Fields = _near(field_values.OF_INSTANCE)
ABOUT_A_REQUEST: Fields = _near(field_values.ABOUT_A_REQUEST)
CANDIDATE: Fields = {**OF_INSTANCE, **ABOUT_A_REQUEST}


def subject(fields: Fields, *names: str) -> Fields:
    """Return fields of instances as fields of `inst`, `here` or `there`."""
    return {f"{name}.{field}": near for name in names for field, near in fields.items()}
