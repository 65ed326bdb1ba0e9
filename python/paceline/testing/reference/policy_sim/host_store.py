"""The store below the host's memory of a prefix tree: writes, reads, and the requests that wait for these.

Follows SGLang 0.5.23: ``prefetch_from_storage``, ``check_prefetch_progress`` and ``write_backup_storage`` of
``srt/mem_cache/unified_radix_cache.py``, and the threads for storage of ``srt/managers/cache_controller.py``.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from paceline.testing.reference.policy_sim.hosted_memory import HostedMemory
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.store import Store, Way
from paceline.testing.reference.radix import Node

BATCH = 128  # blocks that are read or written at a time


@dataclass(slots=True, eq=False)
class Read:
    """A read for a request.

    Attributes
    ----------
    request : Request
    anchor : tuple of Node and int
        The last node of the prefix that the request had, and its blocks.
    first : int
        Blocks of that prefix.
    asked : int
        Blocks that the request had not.
    names : list
        Those that the store has, and for which there is room.
    done : int
        How many of them have been read.
    short : bool
        Whether the store lost one of them before it was read.
    kept : int or None
        How many of them the tree has got, once the request does not wait any more.
    """

    request: Request
    anchor: tuple[Node, int]
    first: int
    asked: int
    names: list[Hashable]
    done: int = 0
    short: bool = False
    kept: int | None = None


class HostStore:
    """The store below the host's memory of one instance.

    Parameters
    ----------
    store : Store
    config : dict
        The instance's link, as ``StoreLink`` in ``rust/core/src/config/store.rs`` names its fields.
    memory : HostedMemory
    block_tokens : int

    Attributes
    ----------
    blocks : dict of str to int
        Blocks copied each way.
    refused : int
        Blocks that the store had and for which the host had no room.
    """

    def __init__(self, store: Store, config: dict[str, Any], memory: HostedMemory, block_tokens: int) -> None:
        self.store, self.config = store, config
        self.blocks: dict[Way, int] = {"write": 0, "read": 0}
        self.refused = 0
        self._tree, self._memory, self._block_tokens = memory.tree, memory, block_tokens
        self._free: dict[Way, int] = {"write": 0, "read": 0}
        self._waited: dict[Request, Read] = {}  # reads that are not in the tree yet
        self._found: list[Read] = []  # those without room on the host
        self._queue: list[Read] = []  # the first is in progress
        self._batch: tuple[int, int] | None = None  # its end and its blocks
        self._ended: list[Read] = []
        self._spare = 0  # room that the next look gives back
        self._writes: list[tuple[int, tuple[Node, int]]] = []  # with the nodes that stay on the host
        self._deadlines: dict[Request, int] = {}
        self._fetched: dict[Request, range] = {}  # the tokens that were read for a request

    # -- copies ------------------------------------------------------------------------

    def _copy(self, way: Way, names: list[Hashable], now: int) -> int:
        """Copy blocks after all copies before, and return when that ends."""
        time = self.config[way]
        alone = max(self._free[way], now) + int(time["fixed"]) + int(time["block"]) * len(names)
        self._free[way] = self.store.copied(way, names, len(names), sent=now, ends=alone)
        self.blocks[way] += len(names)
        return self._free[way]

    def write(self, nodes: list[Node], now: int) -> None:
        """Write nodes that are on the host, the upper ones first; they stay there until that has ended."""
        for node in nodes:
            ends = max(self._free["write"], now)
            for at in range(0, len(node.names), BATCH):
                batch = node.names[at : at + BATCH]
                taken = self.store.put(batch, now)
                ends = self._copy("write", taken, now) if taken else max(self._free["write"], now)
                if not all(name in self.store.objects for name in batch):
                    break
            self._writes.append((ends, self._tree.keep(node)))

    def _begin_batch(self, now: int) -> None:
        self._batch = None
        while self._queue:
            read = self._queue[0]
            batch = read.names[read.done : read.done + BATCH]
            if read.short or read.kept is not None or not batch:
                self._ended.append(self._queue.pop(0))
                continue
            names = list(takewhile(lambda name: self.store.has(name, now), batch))
            read.short = len(names) < len(batch)
            if names:
                self._batch = self._copy("read", names, now), len(names)
                return

    # -- looks ---------------------------------------------------------------------------

    def begin(self, request: Request, now: int) -> None:
        """Begin a read for a request that joins the queue."""
        names = self._memory.names_before_last(request)
        node, _ = self._tree.match(names)
        first = sum(len(one.names) for one in node.path)
        rest = names[first:]
        if len(rest) * self._block_tokens < self._least or not (node.above is None or node.on_host):
            return
        occupied = sum(read.asked for read in self._waited.values()) * self._block_tokens
        if occupied >= self._tree.capacity * self._block_tokens // 2:
            return
        there = list(takewhile(lambda name: self.store.has(name, now), rest))
        self._waited[request] = read = Read(request, self._tree.keep(node), first, len(rest), there)
        self._found.append(read)

    @property
    def _least(self) -> int:
        return max(1, int(self.config["prefetch"]["least"]))

    def look(self, now: int) -> tuple[list[Read], int, int]:
        """Return the reads that have ended by now, how many writes have, and room that is given back."""
        while self._batch is not None and self._batch[0] <= now:
            ends, blocks = self._batch
            self._queue[0].done += blocks
            self._begin_batch(ends)
        ended, self._ended = self._ended, []
        spare, self._spare = self._spare, 0
        return ended, sum(ends <= now for ends, _ in self._writes), spare

    def settle(self, seen: tuple[list[Read], int, int], now: int) -> None:
        """Take room for the reads that have begun, and take in what has been read."""
        found, self._found = self._found, []
        for read in found:
            self._seek_room(read, now)
        ended, writes, spare = seen
        for read in ended:
            if read.kept is None:
                self._take_in(read)
            assert read.kept is not None
            self._spare += len(read.names) - read.kept
        for _, kept in self._writes[:writes]:
            self._tree.give_up(kept)
        self._writes = self._writes[writes:]
        self._tree.reading -= spare

    def _seek_room(self, read: Read, now: int) -> None:
        found, least = len(read.names), self._least
        room = 0
        if found * self._block_tokens >= least:
            room = self._tree.take_room(found, -(-least // self._block_tokens))
            self.refused += found - room
        read.names = read.names[:room]
        if room == 0:
            self._revoke(read)
            return
        self._queue.append(read)
        if self._batch is None:
            self._begin_batch(now)

    def _revoke(self, read: Read) -> None:
        self._tree.give_up(read.anchor)
        del self._waited[read.request]

    def _take_in(self, read: Read) -> None:
        """Insert what has been read into the tree."""
        read.kept = read.done
        had = self._tree.insert_read(read.anchor[0], read.names[: read.done])
        self._revoke(read)
        if read.done > had:
            size = self._block_tokens
            self._fetched[read.request] = range((read.first + had) * size, (read.first + read.done) * size)

    # -- waiting requests ------------------------------------------------------------------

    def awaits(self, request: Request, now: int) -> bool:
        """Whether a request that may be admitted otherwise waits; else take in what has been read for it."""
        read = self._waited.get(request)
        if read is None:
            return False
        stop = self.config["prefetch"]["stop"]
        if stop["kind"] == "wait_complete":
            return True
        if stop["kind"] == "timeout":
            most = int(stop["base"]) + int(stop["per_ki_token"]) * read.asked * self._block_tokens // 1024
            if now <= self._deadlines.setdefault(request, now + most):
                return True
        if read in self._found:
            self._found.remove(read)
            self._revoke(read)
        else:
            self._take_in(read)
        return False

    def admitted(self, request: Request, cached: int, loaded: int) -> int:
        """Return how many of the tokens that an admission loads were read for it."""
        self._deadlines.pop(request, None)
        fetched = self._fetched.pop(request, range(0))
        return sum(token in fetched for token in range(cached, cached + loaded))

    def has_news(self, now: int) -> bool:
        """Whether another look at the same moment finds anything."""
        ended = self._spare or self._ended or any(ends <= now for ends, _ in self._writes)
        return bool(ended) or (self._batch is not None and self._batch[0] <= now)

    @property
    def ends(self) -> list[int]:
        """When the copies under way end."""
        return [ends for ends, _ in self._writes] + ([] if self._batch is None else [self._batch[0]])

    @property
    def deadlines(self) -> list[int]:
        """When requests stop waiting."""
        return [until + 1 for request, until in self._deadlines.items() if request in self._waited]
