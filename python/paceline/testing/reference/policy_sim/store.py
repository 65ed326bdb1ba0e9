"""Stores of chunks below the host's memory: what they hold, what they evict, and how fast they are.

An object is a chunk by its name. Follows vLLM 0.33.0's tiers below its primary one
(``vllm/v1/kv_offload/tiering/``), and the leases of Mooncake Store's master
(``mooncake-store/src/master_service.cpp``). Everything is computed from lists of objects.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, inf
from typing import Any, Literal

from paceline.testing.reference.policy_sim.chunks import Access, Chunks

Way = Literal["write", "read"]

MILLION = 1_000_000


@dataclass(slots=True, eq=False)
class Stored:
    """A chunk in a store.

    Attributes
    ----------
    ready : float
        When it has been written.
    read_until : int
        When the last of its reads so far has ended.
    lease : int
        Until when it is kept since it was looked up or read.
    used : int
        Its latest use, counted over the store.
    """

    used: int
    ready: float = inf
    read_until: int = 0
    lease: int = 0

    def may_go(self, now: int) -> bool:
        """Whether it may be evicted."""
        return self.ready <= now and self.read_until <= now and self.lease <= now


class Store:
    """A store, as all instances that have it see it.

    Parameters
    ----------
    config : dict
        As ``rust/core/src/config/store.rs`` names its fields.

    Examples
    --------
    >>> store = Store({"chunks": 1, "eviction": {"kind": "lru"}, "write": 0, "read": 0})
    >>> store.put(["a", "b"], now=0)      # it has room for one, which is being written
    ['a']
    >>> store.copied("write", ["a"], 1, sent=0, ends=5), store.has("a", 4), store.has("a", 5)
    (5, False, True)
    >>> store.put(["b"], now=6), store.has("a", 7)
    (['b'], False)
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.capacity: int | None = config["chunks"]
        self.objects: dict[Hashable, Stored] = {}
        self.peak = self.evicted = self.refused = 0
        self.blocks: dict[Way, int] = {"write": 0, "read": 0}
        self._rule: dict[str, Any] = config["eviction"]
        self._block: dict[Way, int] = {"write": config["write"], "read": config["read"]}
        self._free: dict[Way, int] = {"write": 0, "read": 0}
        self._uses = 0

    def _use(self) -> int:
        self._uses += 1
        return self._uses

    def _renew(self, stored: Stored, now: int) -> None:
        stored.used = self._use()
        if self._rule["kind"] == "lease":
            stored.lease = max(stored.lease, now + self._rule["ttl"])

    def has(self, key: Hashable, now: int) -> bool:
        """Whether a chunk may be read; its lease begins again."""
        stored = self.objects.get(key)
        if stored is None or stored.ready > now:
            return False
        if self._rule["kind"] == "lease":
            self._renew(stored, now)
        return True

    def put(self, keys: Sequence[Hashable], now: int) -> list[Hashable]:
        """Take the first of those chunks that are not there, as many as fit, and return them.

        Each is looked for once the ones before it have their room, for which it may be evicted.
        """
        taken, refused = list[Hashable](), 0
        for key in keys:
            if key in self.objects:
                continue
            if refused or not self._has_room(now):
                refused += 1
                continue
            self.objects[key] = Stored(self._use())
            taken.append(key)
        self.refused += refused
        self.peak = max(self.peak, len(self.objects))
        if self._rule["kind"] == "lease" and self.capacity is not None:
            above = Fraction(len(self.objects), self.capacity) - Fraction(self._rule["watermark"], MILLION)
            if above > 0 or refused:
                part = max(above, Fraction(0)) + Fraction(self._rule["share"], MILLION)
                self._evict(self._able(now)[: ceil(len(self.objects) * part)])
        return taken

    def _has_room(self, now: int) -> bool:
        """Make room for one chunk, if that is possible."""
        if len(self.objects) != self.capacity:
            return True
        able = self._able(now) if self._rule["kind"] == "lru" else []
        self._evict(able[:1])
        return bool(able)

    def _able(self, now: int) -> list[Hashable]:
        able = [key for key, stored in self.objects.items() if stored.may_go(now)]
        return sorted(able, key=lambda key: (self.objects[key].lease, self.objects[key].used))

    def _evict(self, keys: Sequence[Hashable]) -> None:
        for key in keys:
            del self.objects[key]
        self.evicted += len(keys)

    def copied(self, way: Way, keys: Sequence[Hashable], blocks: int, *, sent: int, ends: int) -> int:
        """Copy chunks over an instance's link that would end at ``ends``; return when the copy ends.

        The store carries the blocks of all instances in the order in which the copies are sent.
        """
        self._free[way] = max(self._free[way], sent) + self._block[way] * blocks
        ends = max(ends, self._free[way])
        self.blocks[way] += blocks
        for key in keys:
            stored = self.objects[key]
            if way == "write":
                stored.used, stored.ready = self._use(), ends
                # Its lease ends at once, which is its place among the others.
                stored.lease = ends if self._rule["kind"] == "lease" else 0
            else:
                self._renew(stored, sent)
                stored.read_until = max(stored.read_until, ends)
        return ends


@dataclass(slots=True, eq=False)
class Below:
    """The store below the tier of one instance.

    Attributes
    ----------
    store : Store
    config : dict
        The instance's link, as ``StoreLink`` in ``rust/core/src/config/store.rs`` names its fields.
    chunk_blocks, block_tokens : int
    under_way : list of (str, list, int)
        Its copies that have not been seen to end: which way, the chunks, and when they end.
    found : list of list
        The chunks that each lookup of the step has found in the store.
    blocks : dict of str to int
        Blocks copied each way.
    refused : int
        Chunks that were found, and not read as the tier had no room.
    """

    store: Store
    config: dict[str, Any]
    chunk_blocks: int
    block_tokens: int
    under_way: list[tuple[Way, list[Hashable], int]] = field(default_factory=list)
    found: list[list[Hashable]] = field(default_factory=list)
    blocks: dict[Way, int] = field(default_factory=lambda: {"write": 0, "read": 0})
    refused: int = 0
    _free: dict[Way, int] = field(default_factory=lambda: {"write": 0, "read": 0})

    def prefetch(
        self, wanted: dict[Hashable, int], tier: Chunks, access: Access, fetched: set[int], now: int
    ) -> int | None:
        """Read those of a request's next chunks that the tier lacks; return until when it waits.

        None if the store has too few of them.
        """
        found = dict[Hashable, int]()
        for key, chunk in wanted.items():
            if tier.readers(key) is None:
                if not self.store.has(key, now):
                    break
                found[key] = chunk
        tokens = len(found) * self.chunk_blocks * self.block_tokens
        rule, ends = self.config["prefetch"], now
        if not found or tokens < rule["least"]:
            return None
        for key, chunk in found.items():
            if tier.store({key: chunk}, access) is None:
                self.refused += 1
                break
            fetched.add(chunk)
            self._copy("read", [key], now)
            ends = self._free["read"]
        stop = rule["stop"]
        if stop["kind"] == "best_effort":
            return now
        if stop["kind"] == "wait_complete":
            return ends
        return min(ends, now + int(stop["base"]) + int(stop["per_ki_token"]) * tokens // 1024)

    def _copy(self, way: Way, keys: list[Hashable], now: int) -> None:
        blocks, time = len(keys) * self.chunk_blocks, self.config[way]
        alone = max(self._free[way], now) + int(time["fixed"]) + int(time["block"]) * blocks
        ends = self.store.copied(way, keys, blocks, sent=now, ends=alone)
        self._free[way] = ends
        self.blocks[way] += blocks
        self.under_way.append((way, keys, ends))

    def write(self, keys: list[Hashable], now: int) -> list[Hashable]:
        """Write chunks that the store lacks and has room for; return them."""
        taken = self.store.put(keys, now)
        if taken:
            self._copy("write", taken, now)
        return taken

    def read(self, now: int) -> None:
        """Read what the lookups of the step have found."""
        found, self.found = self.found, []
        for keys in found:
            self._copy("read", keys, now)

    def ended(self, now: int) -> list[tuple[Way, list[Hashable]]]:
        """Return the copies that have ended, once."""
        gone = [copy for copy in self.under_way if copy[2] <= now]
        self.under_way = [copy for copy in self.under_way if copy[2] > now]
        return [(way, keys) for way, keys, _ in gone]

    @property
    def next_read(self) -> int | None:
        """When the next read ends."""
        return min((ends for way, _, ends in self.under_way if way == "read"), default=None)
