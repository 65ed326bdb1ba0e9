"""A case: requests and a configuration, in the engine's format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from search.draw import routers, workload
from search.draw.clients import cancels, clients
from search.draw.cluster import cluster
from search.draw.source import Source

NONE = 2**32 - 1
NO_MOMENT = 2**64 - 1
KINDS = {
    "arrival": np.uint64,
    "prompt_tokens": np.uint32,
    "output_tokens": np.uint32,
    "reasoning_tokens": np.uint32,
    "priority": np.int64,
    "score": np.float64,
    "tenant": np.uint32,
}


@dataclass(frozen=True, slots=True)
class Case:
    """What is replayed.

    Attributes
    ----------
    requests : list of dict
        One a row: the columns that the engine takes, and ``prefix``, ``session``, and what
        it waits for: ``think``, ``parents`` (rows), ``delay`` and ``not_before``; and when its client cancels
        it: ``cancel_after`` in ticks, ``cancel_tokens``.
    config : dict
        The engine's configuration without ``leap`` and ``record_decisions``.
    prefix_block_tokens : int
        Tokens in a block of ``prefix``; 0: there are none.
    """

    requests: list[dict[str, Any]]
    config: dict[str, Any]
    prefix_block_tokens: int = 0

    def columns(self) -> dict[str, Any]:
        rows = self.requests
        given: dict[str, Any] = {
            name: np.array([row[name] for row in rows], dtype=kind)
            for name, kind in KINDS.items()
            if rows and name in rows[0]
        }
        given["arrival_ticks"] = given.pop("arrival")
        if rows and "numbers" in rows[0]:
            given["numbers"] = [
                np.array(values) for values in zip(*(row["numbers"] for row in rows), strict=True)
            ]
        for name in ("model", "adapter"):
            if rows and name in rows[0]:
                codes = [NONE if row[name] is None else row[name] for row in rows]
                given[name] = np.array(codes, dtype=np.uint32)
        if self.prefix_block_tokens:
            ids = [row["prefix"] for row in rows]
            given["prefix_ids"] = np.array([one for each in ids for one in each], dtype=np.uint64)
            given["prefix_ends"] = np.cumsum([len(each) for each in ids], dtype=np.uint64)
            given["prefix_block_tokens"] = self.prefix_block_tokens
        if rows and "session" in rows[0]:
            codes = [NONE if row["session"] is None else row["session"] for row in rows]
            given["session"] = np.array(codes, dtype=np.uint32)
        return given | self._waits() | self._cancels()

    def _cancels(self) -> dict[str, Any]:
        """Return when clients cancel requests."""
        rows, given = self.requests, dict[str, Any]()
        if rows and "cancel_after" in rows[0]:
            ticks = [NO_MOMENT if row["cancel_after"] is None else row["cancel_after"] for row in rows]
            given["cancel_after_ticks"] = np.array(ticks, dtype=np.uint64)
        if rows and "cancel_tokens" in rows[0]:
            tokens = [NONE if row["cancel_tokens"] is None else row["cancel_tokens"] for row in rows]
            given["cancel_after_tokens"] = np.array(tokens, dtype=np.uint32)
        return given

    def _waits(self) -> dict[str, Any]:
        """Return the answers for which requests wait."""
        rows, given = self.requests, dict[str, Any]()
        if any(row.get("think") is not None for row in rows):
            ticks = [NO_MOMENT if row["think"] is None else row["think"] for row in rows]
            given["think_ticks"] = np.array(ticks, dtype=np.uint64)
        if any(row.get("parents") for row in rows):
            given["parent_ends"] = np.cumsum([len(row["parents"]) for row in rows], dtype=np.uint64)
            given["parent_rows"] = np.array([one for row in rows for one in row["parents"]], dtype=np.uint32)
            given["delay_ticks"] = np.array([row["delay"] for row in rows], dtype=np.uint64)
        if given and rows and "not_before" in rows[0]:
            given["not_before_ticks"] = np.array([row["not_before"] for row in rows], dtype=np.uint64)
        return given

    def to_json(self) -> bytes:
        return msgspec.json.encode(
            {
                "requests": self.requests,
                "config": self.config,
                "prefix_block_tokens": self.prefix_block_tokens,
            }
        )

    @classmethod
    def from_json(cls, text: bytes) -> Case:
        return cls(**msgspec.json.decode(text))


def draw(seed: int, number: int | str) -> Case:
    """Draw a case: the same for the same seed and number."""
    source = Source(f"{seed}:{number}")
    config = cluster(source)
    rows = workload.requests(source, len(config["instances"]))
    if not source.chance(0.75):
        for row in rows:
            del row["reasoning_tokens"]
    if source.chance(0.08):
        workload.models(source, rows, config["instances"])
    if any(one["scheduler"].get("joining", {}).get("adapters") for one in config["instances"]):
        workload.adapters(source, rows)
    if "req.column" in str(config):
        workload.numbers(source, rows)
    cached = any(one["scheduler"]["prefix_cache"] for one in config["instances"])
    size = 0
    if cached and source.chance(0.75):
        size = workload.prefixes(source, rows)
    elif cached:
        workload.sessions(source, rows)
    # A prefix without ids would stand for what sessions say.
    if source.chance(0.35) and (size == 0 or any(row["prefix"] for row in rows)):
        config["clients"] = clients(source, rows)
    if source.chance(0.2) and not config.get("stores"):
        cancels(source, rows)
    if routers.may_relay(config) and source.chance(0.4):
        config["routers"]["relay"] = routers.relay(source, config["routers"]["report_every"])
    return Case(rows, config, size)
