"""The mechanisms that change the outcome: without one of them, some column differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from paceline.errors import PacelineError
from search.brief import SIMPLE
from search.case import Case
from search.oracle.replayed import Replayed

Wire = dict[str, Any]
IN_SCHEDULER = (
    *("long_prefill_token_threshold", "threshold_when_alone", "exclusive_prefill", "victim", "allocation"),
    *("watermark_blocks", "watermark_when_idle", "spare_block", "decodes_first", "refund"),
    *("stop_at_own_preemption", "preemption", "requeue_late", "prefix_cache", "schedule_ahead", "admission"),
    *("receive_interval", "requeue_last", "output_reserve", "whole_block_chunks"),
    *("prompt_batch", "drop_unseen", "unseen_ends"),
)
IN_STAGES = (
    *("unless_preempted", "unless_swapped", "count_decodes", "gather", "chunked"),
    *("charged", "seated", "over_prefills", "sits_out"),
)
IN_ORDER: Wire = {"admits": None, "quantum": 0, "refresh": {"steps": 0, "ticks": 0}}
PLAIN_WAITS: tuple[tuple[str, str, Any], ...] = (
    ("think times", "think", None),
    ("parents", "parents", []),
    ("delays", "delay", 0),
    ("earliest moments", "not_before", 0),
)
IN_CONFIG = ("roles", "handover", "links", "pace", "lockstep", "until")


def telling(replayed: Replayed) -> set[str]:
    """Return the mechanisms of a case without which some column differs."""
    case = replayed.case
    several = [(name, replace(case, config=config)) for name, config in _without(case.config)]
    return {name for name, other in (*several, *_without_clients(case)) if _differs(replayed, other)}


def _differs(replayed: Replayed, case: Case) -> bool:
    try:
        other = Replayed(case, leap=True, record=False)
    except PacelineError:
        # Some mechanisms need each other: the engine refuses a case without one of them.
        return False
    # Only clients have a column of arrivals.
    return any(
        values != replayed.bytes_of_columns[name]
        for name, values in other.bytes_of_columns.items()
        if name != "arrival"
    )


def _without_clients(case: Case) -> Iterator[tuple[str, Case]]:
    """Yield cases whose requests wait for less."""
    config, limit = case.config, case.config.get("clients")
    if limit is not None:
        yield "clients: a limit", replace(case, config={**config, "clients": None})
        for name, plain in (("gap", 0), ("by_session", False)):
            if limit[name] != plain:
                yield f"clients: {name}", replace(case, config={**config, "clients": {**limit, name: plain}})
    # Sessions are limited only if their turns wait.
    free = {**config, "clients": None} if limit is not None and limit["by_session"] else config
    for name, column, plain in PLAIN_WAITS:
        if any(row.get(column, plain) != plain for row in case.requests):
            at_once = [{**row, column: plain} for row in case.requests]
            yield f"clients: {name}", replace(case, requests=at_once, config=free)


def _without(config: Wire) -> Iterator[tuple[str, Wire]]:
    """Yield configurations that lack one mechanism each, and its name."""
    for name in IN_SCHEDULER:
        yield from _changed(config, name, partial(_plain_field, name))
    for name in IN_STAGES:
        yield from _changed(config, f"stage: {name}", partial(_plain_stages, name))
    for name, value in IN_ORDER.items():
        yield from _changed(config, name, partial(_in_order, name, value))
    yield from _changed(config, "hold", _no_holds)
    yield from _changed(config, "classes", _one_class)
    yield from _changed(config, "displace: most", lambda one: _in_admission(one, "most", 0))
    yield from _changed(config, "displace: when", lambda one: _in_admission(one, "when", None))
    yield from _changed(config, "prefix cache: unknown first", _queued_alike)
    yield from _changed(config, "prefix cache: evict", _least_recently_freed)
    for name in IN_CONFIG:
        if config.get(name, SIMPLE[name]) != SIMPLE[name]:
            yield name, {**config, name: SIMPLE[name]}
    yield from _plainer_groups(config)
    for name, value in (config.get("handover") or {}).items():
        if value != SIMPLE[name]:
            yield f"handover: {name}", {**config, "handover": {**config["handover"], name: SIMPLE[name]}}
    for name in ("decode_on_arrival", "on_prefilled", "on_answering", "every"):
        if config["routing"].get(name):
            yield name, {**config, "routing": {**config["routing"], name: SIMPLE[name]}}


def _plainer_groups(config: Wire) -> Iterator[tuple[str, Wire]]:
    """Yield configurations whose groups that step together lack one mechanism each, and its name."""
    groups = config.get("lockstep") or []
    for name, plain in (("balance", None), ("prompts", 0)):
        if any(group.get(name) for group in groups):
            without = [{**group, name: plain} for group in groups]
            yield f"lockstep: {name}", {**config, "lockstep": without}
    if len(groups) > 1:
        every = {**groups[0], "members": list(range(len(config["instances"])))}
        yield "lockstep: groups", {**config, "lockstep": [every]}


def _changed(config: Wire, name: str, change: Callable[[Wire], Wire]) -> Iterator[tuple[str, Wire]]:
    several = [{**one, "scheduler": change(one["scheduler"])} for one in config["instances"]]
    if several != config["instances"]:
        yield name, {**config, "instances": several}


def _plain_field(name: str, scheduler: Wire) -> Wire:
    return {**scheduler, name: SIMPLE[name]} if name in scheduler else scheduler


def _plain_stages(name: str, scheduler: Wire) -> Wire:
    stages = [{**one, name: SIMPLE[name]} if name in one else one for one in scheduler["stages"]]
    return {**scheduler, "stages": stages}


def _in_order(name: str, value: Any, scheduler: Wire) -> Wire:
    order = scheduler["order"]
    return {**scheduler, "order": {**order, name: value}} if name in order else scheduler


def _no_holds(scheduler: Wire) -> Wire:
    classes = [{**one, "hold": 0} for one in scheduler["order"].get("classes", ())]
    return _in_order("classes", classes, scheduler)


def _one_class(scheduler: Wire) -> Wire:
    return _in_order("classes", scheduler["order"].get("classes", ())[-1:], scheduler)


def _in_admission(scheduler: Wire, name: str, value: Any) -> Wire:
    admission = scheduler["admission"]
    return {**scheduler, "admission": {**admission, name: value}} if name in admission else scheduler


def _queued_alike(scheduler: Wire) -> Wire:
    cache = scheduler["prefix_cache"]
    if cache is None or cache.get("evict") or cache.get("tree"):
        return scheduler
    return {**scheduler, "prefix_cache": {"unknown_first": False}}


def _least_recently_freed(scheduler: Wire) -> Wire:
    cache = scheduler["prefix_cache"]
    return {**scheduler, "prefix_cache": cache and {"unknown_first": cache["unknown_first"]}}
