"""The engine's configuration of a policy, written out; and requests as the engine's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.testing.reference.policy_sim import TraceRequest

Wire = dict[str, Any]
NO_SESSION = NO_MODEL = 2**32 - 1
NO_MOMENT = 2**64 - 1


def const(value: float) -> Wire:
    return {"const": value}


def field(name: str, position: int | None = None) -> Wire:
    return {"field": name} if position is None else {"field": name, "class": position}


def op(name: str, *args: Wire) -> Wire:
    return {"op": name, "args": list(args)}


def a_class(*keys: Wire, when: Wire | None = None, hold: int = 0) -> Wire:
    return {"when": when, "hold": hold, "keys": list(keys)}


def order(*classes: Wire, quantum: int = 0, steps: int = 0, ticks: int = 0) -> Wire:
    return {
        "kind": "ranked",
        "classes": list(classes) or [a_class()],
        "quantum": quantum,
        "refresh": {"steps": steps, "ticks": ticks},
    }


WAIT: Wire = {"kind": "wait"}
RECOMPUTE: Wire = {"kind": "recompute"}


def displace(when: Wire | None = None, most: int = 0) -> Wire:
    return {"kind": "displace", "when": when, "most": most}


def swap(blocks: int, out: int = 0, back: int = 0, *, overlapped: bool = False) -> Wire:
    return {"kind": "swap", "blocks": blocks, "out": out, "back": back, "overlapped": overlapped}


def instance(
    blocks: int = 1000,
    *,
    block_tokens: int = 1,
    max_model_len: int | None = None,
    kv_bytes: int = 1,
    kv_layers: int = 1,
    state_blocks: int = 0,
    state_bytes: int = 0,
    step: int = 1,
    token: int = 0,
    kv_token: int = 0,
    budget: int = 1000,
    seats: int = 1000,
    chunked: bool = True,
    unless_preempted: bool = False,
    allocation: str = "sequence",
    order: Wire | None = None,
    admission: Wire | None = None,
    preemption: Wire | None = None,
) -> Wire:
    """Return an instance with one ranked queue; with the defaults all requests fit."""
    admit: Wire = {
        "kind": "admit",
        "chunked": chunked,
        "unless_preempted": unless_preempted,
        "unless_swapped": False,
        "count_decodes": True,
        "gather": None,
    }
    return {
        "blocks": blocks,
        "block_tokens": block_tokens,
        "max_model_len": max_model_len,
        "kv_bytes_per_token": kv_bytes,
        "kv_layers": kv_layers,
        "state_blocks": state_blocks,
        "state_bytes": state_bytes,
        "cost": {"kind": "affine", "step": step, "token": token, "kv_token": kv_token},
        "scheduler": {
            "max_num_batched_tokens": budget,
            "max_num_seqs": seats,
            "long_prefill_token_threshold": 0,
            "threshold_when_alone": False,
            "stages": [{"kind": "running"}, admit],
            "exclusive_prefill": False,
            "order": order or RANKED_BY_ROW,
            "admission": admission or WAIT,
            "victim": "worst",
            "allocation": allocation,
            "watermark_blocks": 0,
            "watermark_when_idle": False,
            "spare_block": False,
            "decodes_first": False,
            "refund": True,
            "stop_at_own_preemption": False,
            "preemption": preemption or RECOMPUTE,
            "requeue_late": False,
            "prefix_cache": None,
            "schedule_ahead": False,
        },
    }


RANKED_BY_ROW = order()
ROUND_ROBIN: Wire = {"rule": "round_robin"}


def pick(
    *least: Wire, where: Wire | None = None, accept: Wire | None = None, within: list[int] | None = None
) -> Wire:
    return {"rule": "pick", "min": list(least), "where": where, "accept": accept, "within": within}


def first_of(*rules: Wire) -> Wire:
    return {"rule": "first_of", "rules": list(rules)}


def side(*least: Wire, where: Wire | None = None, within: list[int] | None = None) -> Wire:
    return {"min": list(least), "where": where, "within": within}


def migrate(
    source: Wire, target: Wire, choose: Wire, *, when: Wire | None = None, live: Wire | None = None
) -> Wire:
    return {
        "action": "migrate",
        "source": source,
        "target": target,
        "choose": choose,
        "when": when,
        "live": live,
    }


def handover(
    most_transfers: int | None = None,
    most_held: float | None = None,
    lease: int | None = None,
    overlap: str = "none",
    reserve: Wire | None = None,
) -> Wire:
    limits = {"most_transfers": most_transfers, "most_held": most_held, "lease": lease}
    return {**limits, "overlap": overlap, "reserve": reserve}


def cluster(
    *instances: Wire,
    on_arrival: Wire = ROUND_ROBIN,
    decode_on_arrival: Wire | None = None,
    on_prefilled: Wire | None = None,
    on_answering: Wire | None = None,
    every: Sequence[tuple[int, Wire]] = (),
    roles: Sequence[int] | None = None,
    handover: Wire | None = None,
    links: Wire | tuple[float, int] | None = None,
    pace: tuple[int, int, int | None] | None = None,
    until: int | None = None,
) -> Wire:
    """Return a cluster: ``links`` may be bytes a second and latency, ``pace`` is interval, first, ttft."""
    if isinstance(links, tuple):
        links = dict(zip(("bytes_per_s", "latency"), links, strict=True))
    return {
        "instances": list(instances),
        "routing": {
            "on_arrival": on_arrival,
            "decode_on_arrival": decode_on_arrival,
            "on_prefilled": on_prefilled,
            "on_answering": on_answering,
            "every": [{"period": period, "actions": [action]} for period, action in every],
        },
        "roles": list(roles or [0] * len(instances)),
        "handover": handover,
        "links": links,
        "pace": None if pace is None else dict(zip(("interval", "first", "ttft"), pace, strict=True)),
        "until": until,
    }


def columns(requests: Sequence[TraceRequest], prefix_block_tokens: int | None = None) -> dict[str, Any]:
    """Return requests as the engine's columns, with their shared prefixes if a block size is given."""
    kinds = {
        "arrival": np.uint64,
        "prompt_tokens": np.uint32,
        "output_tokens": np.uint32,
        "reasoning_tokens": np.uint32,
        "priority": np.int64,
        "score": np.float64,
        "tenant": np.uint32,
    }
    given = {
        name: np.array([getattr(one, name) for one in requests], dtype=kind) for name, kind in kinds.items()
    }
    given["arrival_ticks"] = given.pop("arrival")
    if any(one.model is not None for one in requests):
        codes = [NO_MODEL if one.model is None else one.model for one in requests]
        given["model"] = np.array(codes, dtype=np.uint32)
    if any(one.adapter is not None for one in requests):
        codes = [NO_MODEL if one.adapter is None else one.adapter for one in requests]
        given["adapter"] = np.array(codes, dtype=np.uint32)
    given |= waits(requests)
    if prefix_block_tokens is not None and any(one.prefix for one in requests):
        given["prefix_ends"] = np.cumsum([len(one.prefix) for one in requests], dtype=np.uint64)
        given["prefix_ids"] = np.array([part for one in requests for part in one.prefix], dtype=np.uint64)
        given["prefix_block_tokens"] = prefix_block_tokens
    elif any(one.session is not None for one in requests):
        given["session"] = sessions(requests)
    return given


def waits(requests: Sequence[TraceRequest]) -> dict[str, Any]:
    """Return the answers for which requests wait, if any does, as the engine's columns."""
    given: dict[str, Any] = {}
    if any(one.think is not None for one in requests):
        think = [NO_MOMENT if one.think is None else one.think for one in requests]
        given |= {"session": sessions(requests), "think_ticks": np.array(think, dtype=np.uint64)}
    if any(one.parents for one in requests):
        ends = np.cumsum([len(one.parents) for one in requests], dtype=np.uint64)
        rows = [parent for one in requests for parent in one.parents]
        given |= {"parent_ends": ends, "parent_rows": np.array(rows, dtype=np.uint32)}
        given["delay_ticks"] = np.array([one.delay for one in requests], dtype=np.uint64)
    if given:
        given["not_before_ticks"] = np.array([one.not_before for one in requests], dtype=np.uint64)
    return given


def sessions(requests: Sequence[TraceRequest]) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return the sessions of requests as the engine's column."""
    named = [NO_SESSION if one.session is None else one.session for one in requests]
    return np.array(named, dtype=np.uint32)
