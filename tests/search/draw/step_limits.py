"""Limits of a step that vary, and limits on the prompts that join others; mostly neither."""

from __future__ import annotations

import field_values
from paceline.policy.step_limits import UNCHANGING
from search.draw.expressions import Wire, comparison, const, number, op
from search.draw.fields import OF_INSTANCE, OF_REQUEST, subject
from search.draw.source import Source

_OWN = {
    name: near
    for name, near in subject(OF_INSTANCE, "inst").items()
    if not name.startswith("inst.routed") and name != "inst.role"
}
_UNCHANGING = {
    name: near for name, near in OF_REQUEST.items() if field_values.OF_REQUEST[name].name in UNCHANGING
}


def varying(source: Source, limits: Wire, *, chunked: bool) -> Wire:
    found: Wire = {}
    if chunked and source.chance(0.12):
        least = source.whole(1, min(8, limits["max_num_batched_tokens"]))
        found["tokens"] = {"least": least, "of": _limit(source)}
    if source.chance(0.08):
        found["chunk"] = _limit(source)
    return {"varying": found} if found else {}


def joining(source: Source, limits: Wire) -> Wire:
    found: Wire = {}
    if source.chance(0.1):
        found["prefills"] = source.whole(1, 3)
    if limits["long_prefill_token_threshold"] and source.chance(0.2):
        found["long_prefills"] = source.whole(1, 2)
    if source.chance(0.1):
        found["bucket"] = _bucket(source)
    return {"joining": found} if found else {}


def adapters(source: Source, scheduler: Wire) -> None:
    """Limit the adapters of some schedulers that neither swap requests out nor select them."""
    selects = any(stage["kind"] == "select" for stage in scheduler["stages"])
    if scheduler["preemption"]["kind"] == "recompute" and not selects and source.chance(0.2):
        limits = {"adapters": source.whole(1, 2), "adapter_load": source.ticks(0, 30)}
        scheduler["joining"] = {**scheduler.get("joining", {}), **limits}


def _limit(source: Source) -> Wire:
    if source.chance(0.3):
        return number(source, _OWN)
    return op("if", comparison(source, _OWN), const(source.whole(-1, 40)), const(source.whole(0, 12)))


def _bucket(source: Source) -> Wire:
    if source.chance(0.3):
        return number(source, _UNCHANGING)
    name = source.pick(("req.prompt_tokens", "oracle.output_tokens"))
    return op("floordiv", {"field": name}, const(source.whole(2, 20)))
