"""The fields that expressions may name, from their one declaration, by the kind of values they have.

What draws expressions (`search.draw.fields`, `differential.expressions`) draws constants by these kinds, so a
field that is declared in `paceline.policy.expressions.namespaces` is drawn without a further list.
"""

from __future__ import annotations

from typing import Literal

from paceline.policy.expressions.fields import FIELDS, Meaning
from paceline.policy.step_limits import UNCHANGING
from paceline.testing.reference.policy_sim.books import BOOKED

Values = Literal["tokens", "blocks", "count", "few", "flag", "span", "moment", "share"]

_BY_UNIT: dict[str, Values] = {
    "tokens": "tokens",
    "blocks": "blocks",
    "requests": "count",
    "steps": "count",
    "quanta": "count",
    "s": "span",
}
_BY_NAME: dict[tuple[str, str], Values] = {
    ("block", "last_use"): "moment",
    ("req", "arrival"): "moment",
    ("req", "joined"): "moment",
    ("req", "stopped"): "moment",
    ("req", "level"): "count",
    ("req", "priority"): "few",
    ("req", "score"): "few",
    ("inst", "block_tokens"): "count",
    ("inst", "kv_usage"): "share",
}


def values_of(meaning: Meaning) -> Values:
    """Return the kind of values of a field."""
    named = _BY_NAME.get((meaning.space, meaning.name))
    if named is not None:
        return named
    if meaning.kind != "number":
        return "flag" if meaning.kind == "truth" else "few"
    return _BY_UNIT[meaning.unit] if meaning.unit else "count"


OF_REQUEST = {
    f"{meaning.space}.{meaning.wire}": meaning
    for meaning in FIELDS.values()
    if meaning.space in ("req", "oracle") and meaning.name not in ("cached_tokens", "column")
}
"""Fields of a request by the engine's name of them, ``req.`` or ``oracle.`` before it.

Without those that need a prefix cache, or the name of a column: the search draws them in keys.
"""

OF_BLOCK = {
    f"{meaning.space}.{meaning.wire}": meaning
    for meaning in FIELDS.values()
    if meaning.space == "block"
    or (meaning.space in ("req", "oracle") and meaning.name in UNCHANGING - {"prefill_time"})
}
"""Fields of a cached block, and of the request that freed it last, likewise."""

OF_INSTANCE = {
    meaning.wire: meaning
    for meaning in FIELDS.values()
    if meaning.space == "inst" and meaning.takes not in ("request", "gauge") and meaning.wire not in BOOKED
}
"""Fields of an instance alone, by the engine's name of them.

Without those that need books of the router, or a gauge: the search draws gauges in monitors.
"""

ABOUT_A_REQUEST = {
    meaning.wire: meaning
    for meaning in FIELDS.values()
    if meaning.space == "inst" and meaning.takes == "request" and meaning.wire not in BOOKED
}
"""Fields of an instance that depend on the request, likewise."""
