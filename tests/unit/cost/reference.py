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


def decode(requests: int, context: int) -> Shape:
    """Return a step of `requests` decodes whose contexts are `context` tokens each when it is done."""
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
    requests = shape.decode_requests + shape.prefill_requests
    total = wire["step"] + wire["token"] * tokens + wire["request"] * requests + wire["row"] * shape.sampled
    for linear in wire["linears"]:
        total += _linear(linear, tokens)
    total += _linear(wire["lm_head"], shape.sampled)
    total += decode_attention_ticks(wire, shape) + prefill_attention_ticks(wire, shape)
    total += min((line["fixed"] + line["token"] * tokens for line in wire["all_reduce"]), default=0)
    return int(total)


def decode_attention_ticks(wire: dict[str, Any], shape: Shape) -> int:
    part = wire["decode_attention"]
    memory = part["request_bytes"] * shape.decode_requests + part["kv_bytes"] * shape.decode_kv
    return int(max(memory, part["kv_flops"] * shape.decode_kv))


def prefill_attention_ticks(wire: dict[str, Any], shape: Shape) -> int:
    part = wire["prefill_attention"]
    memory = part["token_bytes"] * shape.prefill_tokens + part["kv_bytes"] * shape.prefill_kv
    return int(max(memory, part["pair_flops"] * shape.prefill_pairs // 2**20)) if shape.prefill_tokens else 0


def _linear(linear: dict[str, int], count: int) -> int:
    if count == 0:
        return 0
    return max(linear["weights"] + linear["token_bytes"] * count, linear["token_flops"] * count)
