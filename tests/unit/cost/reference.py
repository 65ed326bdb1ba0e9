"""The cost models a second time, in plain Python and apart from the engine, for tests to compare with.

Imported as `unit.cost.reference`: the tests folder is on the path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a step computes; the fields are those of StepShape in rust/core/src/cost/mod.rs."""

    decode_requests: int = 0
    decode_kv: int = 0
    prefill_tokens: int = 0
    prefill_requests: int = 0
    prefill_kv: int = 0
    prefill_pairs: int = 0
    sampled: int = 0
    prefill_layers: int = 0
    layers: int = 0


def decode(requests: int, context: int) -> Shape:
    """Return a step of `requests` decodes; each context has `context` tokens when the step ends."""
    return Shape(decode_requests=requests, decode_kv=requests * context, sampled=requests)


def prefill(tokens: int, before: int = 0, requests: int = 1) -> Shape:
    """Return a step that ends `requests` prompts: `tokens` new ones each, on `before` computed earlier."""
    pairs = sum(before + new for new in range(1, tokens + 1))
    return Shape(
        prefill_tokens=requests * tokens,
        prefill_requests=requests,
        prefill_kv=requests * (before + tokens),
        prefill_pairs=requests * pairs,
        sampled=requests,
    )


def step_ticks(wire: dict[str, Any], shape: Shape) -> int:
    """Return what a step costs under a model's wire form."""
    tokens = shape.decode_requests + shape.prefill_tokens
    if wire["kind"] == "affine":
        context = shape.decode_kv + shape.prefill_kv
        return int(wire["step"] + wire["token"] * tokens + wire["kv_token"] * context)
    total = wire["step"] + wire["row"] * shape.sampled + _linear(wire["lm_head"], shape.sampled)
    total += decode_attention_ticks(wire, shape)
    # Layers in the group have the prefills besides, which are divided up by layers and rounded down.
    requests = shape.decode_requests + shape.prefill_requests
    alone = _layers(wire, shape.decode_requests, shape.decode_requests)
    total += alone + _share(shape, _layers(wire, tokens, requests) - alone)
    return int(total + _share(shape, prefill_attention_ticks(wire, shape)))


def all_reduce_seconds(
    size: float, ranks: int, *, nvlink: bool, link: float, given: dict[str, float]
) -> float:
    """Return the seconds of an all-reduce, from NCCL's and vLLM's rules read a second time.

    ``link`` is the link's bandwidth, ``given`` has an efficiency's ``ring``, ``one_shot`` and
    ``one_shot_latency_s``. Every way is written out, none is left out, and the least is taken at this size.
    """
    us, bus = 1e-6, given["ring"] * link
    low = min(0.5 * bus, 0.313 * link)
    hops, around = 2 * (ranks - 1), 2 * (ranks - 1) / ranks
    if nvlink:
        times = [
            (6.6 + 0.6 * hops) * us + around * size / low,
            (14.0 + 1.9 * hops) * us + around * size / (0.92 * bus),
            (8.4 + 3.4 * hops) * us + around * size / bus,
            (6.8 + 0.6 * hops) * us + 2 * size / (0.92 / 3.8 * bus),
            (14.0 + 1.25 * hops) * us + 2 * size / (0.92 * 7 / 9 * bus),
            (8.4 + 4.0 * hops) * us + 2 * size / (0.92 * bus),
        ]
    else:
        times = [
            (6.6 + 1.0 * hops) * us + around * size / low,
            (8.4 + 5.7 * hops) * us + around * size / bus,
            (6.8 + 1.0 * hops) * us + 2 * size / (0.92 / 3.8 * bus),
            (8.4 + 4.0 * hops) * us + 2 * size / (0.92 * bus),
        ]
    read, latency = given["one_shot"] * link, given["one_shot_latency_s"]
    if nvlink or ranks == 2:
        times.append(latency + (ranks - 1) * size / read)
    if nvlink and ranks > 2:
        times.append(2 * latency + around * size / read)
    return min(times)


def _share(shape: Shape, ticks: int) -> int:
    if shape.prefill_layers == shape.layers:
        return ticks
    return ticks * shape.prefill_layers // shape.layers


def _layers(wire: dict[str, Any], tokens: int, requests: int) -> int:
    """Return what all layers take for a batch, attention apart."""
    total = wire["token"] * tokens + wire["request"] * requests
    total += sum(_linear(linear, tokens) for linear in wire["linears"])
    if tokens and "experts" in wire:
        experts = wire["experts"]
        read = max(ticks for at, ticks in experts["weights"] if at <= tokens)  # a point at every token
        total += max(read + experts["token_bytes"] * tokens, experts["token_flops"] * tokens)
    if tokens:
        total += min((line["fixed"] + line["token"] * tokens for line in wire["all_reduce"]), default=0)
        total += sum(line["fixed"] + line["token"] * tokens for line in wire.get("exchange", ()))
    return int(total)


def decode_attention_ticks(wire: dict[str, Any], shape: Shape) -> int:
    total = _decode(wire["decode_attention"], shape.decode_requests, shape.decode_kv)
    if "windowed" in wire:
        seen = min(shape.decode_kv, wire["windowed"]["tokens"] * shape.decode_requests)
        total += _decode(wire["windowed"]["decode"], shape.decode_requests, seen)
    if "recurrent" in wire:
        total += wire["recurrent"]["request_decodes"] * shape.decode_requests
    return total


def prefill_attention_ticks(wire: dict[str, Any], shape: Shape) -> int:
    tokens = shape.prefill_tokens
    if not tokens:
        return 0
    total = _prefill(wire["prefill_attention"], tokens, shape.prefill_kv, shape.prefill_pairs)
    if "windowed" in wire:
        window = wire["windowed"]["tokens"]
        context = min(shape.prefill_kv, tokens + window * shape.prefill_requests)
        pairs = min(shape.prefill_pairs, window * tokens)
        total += _prefill(wire["windowed"]["prefill"], tokens, context, pairs)
    if "recurrent" in wire:
        states = wire["recurrent"]
        memory = states["request_bytes"] * shape.prefill_requests + states["token_bytes"] * tokens
        total += max(memory, states["token_flops"] * tokens)
    return total


def _decode(part: dict[str, int], requests: int, context: int) -> int:
    memory = part["request_bytes"] * requests + part["kv_bytes"] * context
    return max(memory, part["kv_flops"] * context)


def _prefill(part: dict[str, int], tokens: int, context: int, pairs: int) -> int:
    memory = part["token_bytes"] * tokens + part["kv_bytes"] * context
    return max(memory, part["pair_flops"] * pairs // 2**20)


def _linear(linear: dict[str, int], count: int) -> int:
    if count == 0:
        return 0
    return max(linear["weights"] + linear["token_bytes"] * count, linear["token_flops"] * count)
