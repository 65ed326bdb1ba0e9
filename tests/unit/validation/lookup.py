"""A second reading of a table's wire form, in floats and one step at a time, for the reference simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.kernels import Grid
from paceline.testing.reference import AffineCost
from paceline.testing.reference.request import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp(AffineCost):
    """Looks a step up in what the engine is sent. Times are in ticks."""

    wire: Mapping[str, Any]
    grids: Mapping[str, Grid]

    @classmethod
    def of(cls, wire: Mapping[str, Any]) -> LookedUp:
        axes = ("tokens", "history", "requests", "context")
        grids = {}
        for kind in ("decode", "prefill", "mixed"):
            points = wire[kind]
            shape = [len(points[axis]) for axis in axes]
            a, b, c, d = (tuple(points[axis]) for axis in axes)
            grids[kind] = Grid((a, b, c, d), np.array(points["ticks"], dtype=float).reshape(shape))
        return cls(step=wire["step"], wire=wire, grids=grids)

    def duration(self, entries: list[Entry], swapped_blocks: int = 0) -> int:
        decodes = [
            e.before + 1 for e in entries if e.tokens == 1 and e.before >= e.sequence.request.prompt_tokens
        ]
        chunks = [
            (e.before, e.tokens)
            for e in entries
            if not (e.tokens == 1 and e.before >= e.sequence.request.prompt_tokens)
        ]
        tokens = sum(chunk for _, chunk in chunks)
        pairs = sum(chunk * before + chunk * (chunk + 1) // 2 for before, chunk in chunks)
        time = self.curve("tokens", tokens + len(decodes)) + self.curve("rows", len(entries))
        return round(self.step + time + self.attention(tokens, pairs, decodes))

    def curve(self, name: str, n: int) -> float:
        at, ticks = self.wire[name]["at"], self.wire[name]["ticks"]
        if n <= at[-1]:
            return float(np.interp(n, at, ticks))
        return float(ticks[-1] + (ticks[-1] - ticks[-2]) / (at[-1] - at[-2]) * (n - at[-1]))

    def attention(self, tokens: int, pairs: int, decodes: list[int]) -> float:
        kind = ("mixed" if decodes else "prefill") if tokens else "decode"
        history = max(pairs - tokens * (tokens + 1) / 2, 0) / max(tokens, 1)
        grid, n = self.grids[kind], len(decodes)
        if not decodes:
            return grid(tokens, history, 0, 0)
        mean = grid(tokens, history, n, sum(decodes) / n)
        skew = self.wire["skew"]
        if skew is None or max(decodes) * n == sum(decodes):
            return mean
        most = grid(tokens, history, n, max(decodes))
        return mean + self.alpha(tokens, n, sum(decodes), max(decodes)) * (most - mean)

    def alpha(self, tokens: int, n: int, total: int, longest: int) -> float:
        skew = self.wire["skew"]
        shape = (len(skew["tokens"]), len(skew["requests"]), skew["cells"])
        table = np.array(skew["alpha"], dtype=float).reshape(shape) / 2**20
        cell = total * skew["cells"] // (n * longest)
        first = 1 if tokens and skew["tokens"][0] == 0 else 0
        by_size = [np.interp(n, skew["requests"], row[:, cell]) for row in table[first:]]
        return float(np.interp(tokens, skew["tokens"][first:], by_size))
