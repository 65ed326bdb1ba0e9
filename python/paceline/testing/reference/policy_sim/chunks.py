"""The chunks of KV that a tier holds: which are ready, which are copied, and which are evicted next.

Follows vLLM 0.33.0 (``vllm/v1/kv_offload/cpu/manager.py`` and ``cpu/policies/``), in plain lists.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

PENDING = -1  # readers of a chunk that is still being stored
TRACKED = 64_000  # chunks whose offers are counted


@dataclass(slots=True, eq=False)
class Access:
    """What one request has done with the chunks of a tier.

    Attributes
    ----------
    seen : dict of key to int
        The chunks it offered to store, stored or loaded, and the place of each in its sequence.
    stored, reused, missed : set of key
        Those it stored; found; and offered while they were not there.
    rank : int or None
        Its rank among requests, where the least recently used chunk is evicted.
    """

    seen: dict[Hashable, int] = field(default_factory=dict)
    stored: set[Hashable] = field(default_factory=set)
    reused: set[Hashable] = field(default_factory=set)
    missed: set[Hashable] = field(default_factory=set)
    rank: int | None = None


class Recency:
    """Evicts the least recently used chunk: the last of a request's chunks before its first.

    While a request runs, its chunks have its rank. When it has finished, each has a rank of its own.
    """

    def __init__(self, capacity: int) -> None:
        del capacity
        self._ranks: dict[Hashable, tuple[int, int]] = {}
        self._latest = 0

    def _next(self) -> int:
        self._latest += 1
        return self._latest

    def _rank_of(self, access: Access) -> int:
        if access.rank is None:
            access.rank = self._next()
        return access.rank

    def missed(self, keys: Sequence[Hashable]) -> None:
        """Chunks are to be stored that are not there: no matter here."""

    def accessed(self, keys: Iterable[Hashable], access: Access) -> None:
        """Note the first access of a request to some chunks, which are in the tier or will be."""
        rank = self._rank_of(access)
        for key in keys:
            if key in self._ranks:
                self._ranks[key] = max(self._ranks[key], (rank, -access.seen[key]))

    def insert(self, key: Hashable, access: Access) -> None:
        """Add a chunk that a request stores."""
        self._ranks[key] = (self._rank_of(access), -access.seen[key])

    def finished(self, access: Access) -> None:
        """Note that a request has finished."""
        for key in sorted(access.seen, key=lambda one: access.seen[one], reverse=True):
            if key in self._ranks:
                self._ranks[key] = (self._next(), 0)

    def evict(self, count: int, able: set[Hashable]) -> list[Hashable] | None:
        """Remove and return so many of the chunks that may go; None if there are fewer."""
        gone = sorted(able, key=lambda key: self._ranks[key])[:count]
        if len(gone) < count:
            return None
        for key in gone:
            del self._ranks[key]
        return gone


class Adaptive:
    """Adaptive replacement: chunks stored once and chunks used again, with a target for the first.

    A chunk that was evicted is remembered. If it is stored again, the target moves towards its list.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._target = 0.0
        self._once: list[Hashable] = []  # in the order of use, the longest ago first
        self._again: list[Hashable] = []
        self._lost_once: list[Hashable] = []
        self._lost_again: list[Hashable] = []

    def missed(self, keys: Sequence[Hashable]) -> None:
        """Move the target for chunks that are stored again, once a request."""
        once, again = self._lost_once, self._lost_again
        for key in reversed(keys):
            if key in once:
                self._target = min(self._target + max(1, len(again) / len(once)), self._capacity)
                _to_end(once, key)
            elif key in again:
                self._target = max(self._target - max(1, len(once) / len(again)), 0)
                _to_end(again, key)

    def accessed(self, keys: Iterable[Hashable], access: Access) -> None:
        """Note a first access: no matter before the request has finished."""

    def insert(self, key: Hashable, access: Access) -> None:
        """Add a chunk that a request stores."""
        del access
        self._once.append(key)
        for lost in (self._lost_once, self._lost_again):
            if key in lost:
                lost.remove(key)

    def finished(self, access: Access) -> None:
        """Note that a request has finished: the chunks that it found were used again."""
        for key in sorted(access.seen, key=lambda one: access.seen[one], reverse=True):
            if key in access.stored and key not in access.reused:
                for part in (self._once, self._again):
                    if key in part:
                        _to_end(part, key)
            elif key in access.reused:
                if key in self._once:
                    self._once.remove(key)
                    self._again.append(key)
                elif key in self._again:
                    _to_end(self._again, key)

    def evict(self, count: int, able: set[Hashable]) -> list[Hashable] | None:
        """Remove and return so many of the chunks that may go; None if there are fewer."""
        once = [key for key in self._once if key in able]
        again = [key for key in self._again if key in able]
        left, gone = len(self._once), list[tuple[Hashable, bool]]()
        for _ in range(count):
            if once and (left >= int(self._target) or not again):
                gone.append((once.pop(0), True))
                left -= 1
            elif again:
                gone.append((again.pop(0), False))
            else:
                return None
        for key, was_once in gone:
            (self._once if was_once else self._again).remove(key)
            (self._lost_once if was_once else self._lost_again).append(key)
        for lost in (self._lost_once, self._lost_again):
            del lost[: max(len(lost) - self._capacity, 0)]
        return [key for key, _ in gone]


def _to_end(part: list[Hashable], key: Hashable) -> None:
    part.remove(key)
    part.append(key)


class Chunks:
    """The chunks of a tier.

    Parameters
    ----------
    capacity : int
        Chunks that it has room for.
    eviction : {"lru", "arc"}
    threshold : int
        Offers of a chunk before it is stored; 0 and 1: it is stored at once.

    Examples
    --------
    >>> chunks, one = Chunks(2, "lru", 0), Access()
    >>> chunks.store({"a": 0, "b": 1}, one)
    ['a', 'b']
    >>> chunks.store({"c": 0}, Access()) is None     # both are being stored
    True
    >>> chunks.stored(["a", "b"])
    >>> chunks.store({"c": 0}, Access()), chunks.readers("b")     # the last of the request goes first
    (['c'], None)
    """

    def __init__(self, capacity: int, eviction: str, threshold: int) -> None:
        self.capacity = capacity
        self.evicted = 0
        self._order = Recency(capacity) if eviction == "lru" else Adaptive(capacity)
        self._threshold = threshold
        self._offers: dict[Hashable, int] = {}  # the one offered the longest ago first
        self._readers: dict[Hashable, int] = {}

    @property
    def used(self) -> int:
        """Chunks in the tier, those that are being stored among them."""
        return len(self._readers)

    def readers(self, key: Hashable) -> int | None:
        """Return how many loads read a chunk: ``PENDING`` while it is stored, None if it is not there."""
        return self._readers.get(key)

    def store(self, offered: dict[Hashable, int], access: Access) -> list[Hashable] | None:
        """Store chunks of a request, and return those that were not there; None if they lack room.

        Those offered are not evicted for each other.
        """
        self._count(list(offered))
        ready = [key for key in offered if self._readers.get(key, PENDING) != PENDING]
        lacking = [key for key in offered if key not in self._readers]
        if self._threshold >= 2:
            lacking = [key for key in lacking if self._offers.get(key, 0) >= self._threshold]
        self._order.missed([key for key in lacking if key not in access.missed])
        access.missed.update(lacking)
        self._access({key: at for key, at in offered.items() if key in {*lacking, *ready}}, access)
        access.reused.update(key for key in ready if key not in access.stored)
        excess = self.used + len(lacking) - self.capacity
        if lacking and excess > 0:
            idle = {key for key, readers in self._readers.items() if readers == 0}
            gone = self._order.evict(excess, idle - set(offered)) if excess <= len(idle) else None
            if gone is None:
                return None
            for key in gone:
                del self._readers[key]
            self.evicted += excess
        for key in lacking:
            self._readers[key] = PENDING
            self._order.insert(key, access)
        access.stored.update(lacking)
        return lacking

    def stored(self, keys: Iterable[Hashable]) -> None:
        """Note that chunks have been copied: they may be loaded, and evicted."""
        for key in keys:
            self._readers[key] = 0

    def load(self, wanted: dict[Hashable, int], access: Access) -> None:
        """Begin to load chunks, which are not evicted until that has ended."""
        for key in wanted:
            assert self._readers[key] != PENDING, "only chunks that are ready are loaded"
            self._readers[key] += 1
        self._access(wanted, access)
        access.reused.update(key for key in wanted if key not in access.stored)

    def loaded(self, keys: Iterable[Hashable]) -> None:
        """End a load."""
        for key in keys:
            self._readers[key] -= 1

    def hold(self, keys: Iterable[Hashable]) -> None:
        """Keep chunks until `loaded` is called: they are copied to a tier below, which is no use of them."""
        for key in keys:
            self._readers[key] += 1

    def finished(self, access: Access) -> None:
        """Note that a request has finished."""
        self._order.finished(access)

    def _access(self, keys: dict[Hashable, int], access: Access) -> None:
        new = {key: at for key, at in keys.items() if key not in access.seen}
        access.seen.update(new)
        if new:
            self._order.accessed(new, access)

    def _count(self, keys: list[Hashable]) -> None:
        if self._threshold < 2:
            return
        known = [key for key in keys if key in self._offers]
        for key in known:
            self._offers[key] = self._offers.pop(key) + 1
        others = len(self._offers) - len(known)
        for key in keys:
            if key in self._offers:
                continue
            if len(self._offers) >= TRACKED:
                if others == 0:
                    continue
                del self._offers[next(iter(self._offers))]
                others -= 1
            self._offers[key] = 1
