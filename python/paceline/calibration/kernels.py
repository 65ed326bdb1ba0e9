"""A step's time by kernel, from the coefficients that the engine gets.

The engine adds the same coefficients up in ticks; here they are separate, in seconds, so that an observation
of one kernel can be compared with them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from paceline._clock import TICKS_PER_SECOND

__all__ = ["step_seconds"]

_PAIR_FRACTION = 2**20  # rust/core/src/cost/roofline/attention.rs


def step_seconds(
    wire: dict[str, Any], *, decodes: int = 0, context: int = 0, prefill: int = 0, history: int = 0
) -> dict[str, float]:
    """Return the time of a step by kernel, in seconds.

    Parameters
    ----------
    wire
        As `Roofline.to_wire` gives it.
    decodes, context
        Decoding requests, and tokens of context that each attends to, its own among them.
    prefill, history
        Tokens of one prompt computed in the step, and tokens of it computed before.

    Examples
    --------
    >>> from paceline.cost import Roofline
    >>> from paceline.hardware import Gpu
    >>> from paceline.model import Model
    >>> wire = Roofline().to_wire(Model.load("llama-3.1-8b"), Gpu.load("h100-sxm"))
    >>> parts = step_seconds(wire, prefill=2048)
    >>> parts["experts"], round(sum(parts.values()), 4)
    (0.0, 0.0459)
    """
    tokens = decodes + prefill
    # Only what ends a prompt is sampled; a chunk is taken to end one.
    rows = decodes + (prefill > 0)
    requests = decodes + (prefill > 0)
    kv, ends = decodes * context, history + prefill if prefill else 0
    pairs = prefill * history + prefill * (prefill + 1) // 2
    attention = _attention(
        wire["decode_attention"], wire["prefill_attention"], decodes, kv, prefill, ends, pairs
    )
    windowed = wire.get("windowed")
    if windowed:
        window = windowed["tokens"]
        attention += _attention(
            windowed["decode"],
            windowed["prefill"],
            decodes,
            min(kv, window * decodes),
            prefill,
            min(ends, window + prefill),
            min(pairs, window * prefill),
        )
    if wire.get("recurrent"):
        attention += _states(wire["recurrent"], decodes, prefill)
    linears = sum(_linear(linear, tokens) for linear in wire["linears"]) + _linear(wire["lm_head"], rows)
    reduce = [line["fixed"] + line["token"] * tokens for line in wire["all_reduce"]] if tokens else []
    parts = {
        "step": wire["step"],
        "tokens": wire["token"] * tokens + wire["request"] * requests + wire["row"] * rows,
        "linears": linears,
        "attention": attention,
        "experts": _experts(wire.get("experts"), tokens),
        "all_reduce": min(reduce, default=0),
    }
    return {name: ticks / TICKS_PER_SECOND for name, ticks in parts.items()}


def _linear(linear: dict[str, int], tokens: int) -> int:
    if not tokens:
        return 0
    return max(linear["weights"] + linear["token_bytes"] * tokens, linear["token_flops"] * tokens)


def _states(states: dict[str, int], decodes: int, prefill: int) -> int:
    """Return the time of layers with states in place of a cache, of a single prompt in prefill."""
    taken = states["request_decodes"] * decodes
    if prefill:
        memory = states["request_bytes"] + states["token_bytes"] * prefill
        taken += max(memory, states["token_flops"] * prefill)
    return taken


def _attention(
    decode: dict[str, int], fill: dict[str, int], decodes: int, kv: int, prefill: int, ends: int, pairs: int
) -> float:
    taken: float = max(decode["request_bytes"] * decodes + decode["kv_bytes"] * kv, decode["kv_flops"] * kv)
    if prefill:
        memory = fill["token_bytes"] * prefill + fill["kv_bytes"] * ends
        taken += max(memory, fill["pair_flops"] * pairs / _PAIR_FRACTION)
    return taken


def _experts(experts: dict[str, Any] | None, tokens: int) -> float:
    if experts is None or not tokens:
        return 0.0
    points = experts["weights"]
    at = bisect_left(points, tokens, key=lambda point: point[0])
    if at == len(points):
        read = points[-1][1]
    elif points[at][0] == tokens:
        read = points[at][1]
    else:
        low, high = points[at - 1] if at else (0, 0), points[at]
        read = low[1] + (high[1] - low[1]) * (tokens - low[0]) / (high[0] - low[0])
    memory: float = read + experts["token_bytes"] * tokens
    arithmetic: float = experts["token_flops"] * tokens
    return max(memory, arithmetic)
