"""Costs of steps: mostly affine, some small rooflines and tables; and the traffic of steps."""

from __future__ import annotations

from typing import Any

from search.draw.expressions import Wire
from search.draw.source import Source

ALPHA_ONE = 1 << 10


def affine(source: Source) -> Wire:
    return {
        "kind": "affine",
        "step": source.ticks(1, 20) if source.chance(0.95) else 0,
        "token": source.ticks(0, 3),
        "kv_token": source.pick((0, 0, 1, 2)) * source.unit,
    }


def cost(source: Source) -> Wire:
    drawn = _padded(source)
    if not source.chance(0.1):
        return drawn
    return {"kind": "floor", "prompts": source.ticks(0, 60), "cost": drawn}


def _padded(source: Source) -> Wire:
    drawn = _unpadded(source)
    if not source.chance(0.2):
        return drawn

    def sizes() -> list[int]:
        return sorted({source.whole(1, 40) for _ in range(source.whole(0, 5))})

    drafts = sorted({source.whole(0, 4) for _ in range(source.whole(0, 2))})
    uniform = [{"drafts": one, "sizes": sizes()} for one in drafts]
    captured: Wire = {"sizes": sizes(), "uniform": uniform}
    if source.chance(0.3):
        captured["eager"] = source.ticks(0, 60)
    return {"kind": "graphs", "captured": captured, "cost": drawn}


def _unpadded(source: Source) -> Wire:
    kind = source.pick(("affine", "affine", "affine", "affine", "roofline", "table"))
    if kind == "affine" or (kind == "table" and source.unit == 1):
        drawn = affine(source)
        if drawn["step"] + drawn["token"] == 0:
            drawn["step"] = source.unit
        return drawn
    return roofline(source) if kind == "roofline" else table(source)


def roofline(source: Source) -> Wire:
    def ticks(*names: str) -> Wire:
        return {name: source.ticks(0, 3) for name in names}

    linear = ("weights", "token_bytes", "token_flops")
    decode, prefill = ("request_bytes", "kv_bytes", "kv_flops"), ("token_bytes", "kv_bytes", "pair_flops")
    whole: dict[str, Any] = {
        "kind": "roofline",
        "step": source.ticks(1, 10),
        **ticks("token", "request", "row"),
        "linears": source.some(0, 2, lambda: ticks(*linear)),
        "lm_head": ticks(*linear),
        "decode_attention": ticks(*decode),
        "prefill_attention": ticks(*prefill),
        "windowed": source.maybe(
            0.3,
            lambda: {"tokens": source.whole(1, 30), "decode": ticks(*decode), "prefill": ticks(*prefill)},
        ),
        "experts": source.maybe(
            0.3, lambda: {"weights": rising(source), **ticks("token_bytes", "token_flops")}
        ),
        "all_reduce": source.some(0, 2, lambda: ticks("fixed", "token")),
        "exchange": source.some(0, 1, lambda: ticks("fixed", "token")),
    }
    return whole


def rising(source: Source) -> list[list[int]]:
    at = sorted({source.whole(1, 40) for _ in range(3)})
    values = sorted(source.ticks(0, 20) for _ in at)
    return [list(point) for point in zip(at, values, strict=True)]


def curve(source: Source, most: int = 30) -> Wire:
    at = sorted({source.whole(1, most) for _ in range(source.whole(1, 3))})
    return {"at": at, "ticks": sorted(source.ticks(0, 12) for _ in at)}


def table(source: Source) -> Wire:
    def axis(most: int, points: int) -> list[int]:
        return sorted({source.whole(0, most) for _ in range(source.whole(1, points))})

    def kernel(*, tokens: bool, decodes: bool) -> Wire:
        axes = {
            "tokens": axis(20, 2) if tokens else [0],
            "history": axis(20, 2) if tokens else [0],
            "requests": axis(6, 2) if decodes else [0],
            "context": axis(60, 3) if decodes else [0],
        }
        columns = len(axes["tokens"]) * len(axes["history"]) * len(axes["requests"])
        falls = source.chance(0.15)
        ticks: list[int] = []
        for _ in range(columns):
            values = sorted((source.ticks(0, 12) for _ in axes["context"]), reverse=falls)
            ticks += values
        return {**axes, "ticks": ticks}

    def skew() -> Wire:
        tokens, requests, cells = axis(10, 2), axis(6, 2), source.whole(1, 4)
        size = len(tokens) * len(requests) * cells
        alpha = [source.whole(0, 4) << 18 for _ in range(size)]
        return {"tokens": tokens, "requests": requests, "cells": cells, "alpha": alpha}

    return {
        "kind": "table",
        "step": source.ticks(1, 10),
        "tokens": curve(source),
        "experts": source.maybe(0.3, lambda: curve(source)),
        "rows": curve(source, 8),
        "decode": kernel(tokens=False, decodes=True),
        "prefill": kernel(tokens=True, decodes=False),
        "mixed": kernel(tokens=True, decodes=True),
        "skew": source.maybe(0.4, skew),
    }


def traffic(source: Source) -> Wire:
    """Draw the bytes and FLOPs of steps."""

    def numbers(*names: str) -> Wire:
        return {name: source.whole(0, 9) for name in names}

    def token() -> Wire:
        return {
            **numbers("activations", "kv_written", "flops", "link"),
            "attention": numbers("context", "pair"),
        }

    def windows() -> Wire:
        attended = ("context", "pair")
        return {
            "tokens": source.whole(1, 30),
            "decode": numbers(*attended),
            "prefill": numbers(*attended),
        }

    def experts() -> Wire:
        loads = [[at, value << 20] for at, value in zip((1, 4, 20), (1, 3, 8), strict=True)]
        return {"bytes": source.whole(1, 9), "loads": loads}

    return {
        **numbers("weights", "head"),
        "experts": source.maybe(0.5, experts),
        "decode": token(),
        "prefill": token(),
        "row": numbers("activations", "flops", "link"),
        "windows": source.maybe(0.5, windows),
        "power": source.maybe(
            0.5, lambda: numbers("idle_uw", "busy_uw", "hbm_byte_aj", "flop_aj", "link_byte_aj")
        ),
    }
