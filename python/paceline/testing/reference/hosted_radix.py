"""A radix tree of cached prefixes whose nodes are on the GPU, in the host's memory, or in both.

Follows the hierarchical cache of SGLang 0.5.23 (``srt/mem_cache/unified_radix_cache.py``,
``unified_cache/unified_tree_core.py`` and ``components/full.py``):

* a node on the GPU has all nodes above it there, too;
* a node is written to the host as it is inserted (``through``), as it is inserted for the second time
  (``selective``), or as the GPU evicts it (``back``); nodes above it that the host lacks are written before;
* a node that the GPU evicts stays in the tree if the host has it;
* of the nodes that the host alone has, the leaf that was used the longest ago is evicted;
* with ``back``, copies of what the GPU has, too, are given up before that.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal

from paceline.testing.reference.radix import Node, RadixTree, equal_names

__all__ = ["HostedTree", "Write"]

Write = Literal["through", "selective", "back"]

_INSERTIONS = {"through": 1, "selective": 2}


class HostedTree(RadixTree):
    """A tree without nodes but its root, and an empty memory of the host.

    Parameters
    ----------
    capacity : int
        Blocks that fit into the host's memory.
    write : str

    Attributes
    ----------
    capacity : int
    written : list of tuple of Node and int
        Nodes that are to be copied to the host, and that are locked until they are; and their blocks, as a
        node may be split since.
    at_once : list of int
        Blocks of each node that an eviction copied to the host.
    host_evictions, refused : int
        Blocks that the host evicted, and nodes for which it had no room.
    peak, stored : int
        The most blocks that the host had, and all blocks that were copied to it.
    reading : int
        Blocks of the host's memory that are read from a store below it, and in no node yet.

    Examples
    --------
    >>> tree = HostedTree(4, "through")
    >>> node, _ = tree.insert("abcd", [1, 2, 3, 4])
    >>> tree.used, tree.written == [(node, 4)], tree.evict()
    (4, True, [])
    >>> tree.unlock(node)
    >>> tree.evict(), tree.match("abx")[1], tree.host_part("abx")
    ([1, 2, 3, 4], [], 2)
    """

    def __init__(self, capacity: int, write: Write) -> None:
        super().__init__()
        self.written: list[tuple[Node, int]] = []
        self.at_once: list[int] = []
        self.host_evictions = self.refused = self.peak = self.stored = self.reading = 0
        self.capacity, self._write = capacity, write
        self._copies: dict[Node, None] = {}  # with copies on the GPU and the host, and others that had
        self._kept: list[tuple[Node, int]] = []  # nodes that stay on the host, and their blocks before splits

    @property
    def used(self) -> int:
        """Blocks of the host's memory."""
        return sum(len(node.names) for node in self.nodes if node.on_host) + self.reading

    def host_part(self, names: Sequence[Hashable]) -> int:
        """Return how many blocks of a sequence the host has after those of the GPU."""
        found, equal = self.find(names)
        lengths = [len(node.names) for node in found[:-1]] + [equal]
        return sum(length for node, length in zip(found, lengths, strict=False) if not node.blocks)

    # -- insertions ------------------------------------------------------------------

    def insert(
        self, names: Sequence[Hashable], blocks: Sequence[int], counted: int = 0
    ) -> tuple[Node, list[int]]:
        """Insert a sequence, the first ``counted`` blocks of which the request has inserted before."""
        node, at, others = self.root, 0, []
        while at < len(names) and names[at] in node.below:
            node = node.below[names[at]]
            self._use(node)
            equal = equal_names(node.names, names[at:])
            if equal < len(node.names):
                node = self._split(node, equal)
            if node.blocks:
                others += [own for own in node.blocks if own not in blocks]
            else:
                node.blocks = list(blocks[at : at + equal])
                self._note_copies(node)
            at += equal
            if at > counted:
                self._count(node)
        if at < len(names):
            node = self._add(node, list(names[at:]), list(blocks[at:]))
            if len(names) > counted:
                self._count(node)
        return node, others

    def _count(self, node: Node) -> None:
        """Count an insertion of a node; write it if it is due, those above that the host lacks before it."""
        if self._write == "back":
            return
        node.inserted += 1
        if node.on_host or node.inserted < _INSERTIONS[self._write]:
            return
        lacking = [node]
        while (above := lacking[-1].above) is not None and above is not self.root and not above.on_host:
            lacking.append(above)
        for one in reversed(lacking):
            if not self._store(one):
                return
            self.written.append((one, len(one.names)))
            self.lock(one)

    def _store(self, node: Node) -> bool:
        """Take room in the host's memory for a node, and return whether there is any."""
        wanted = len(node.names) - (self.capacity - self.used)
        if wanted > 0 and self._evict_from_host(wanted) < wanted:
            self.refused += 1
            return False
        node.on_host = True
        self.stored += len(node.names)
        self.peak = max(self.peak, self.used)
        return True

    def _split(self, node: Node, length: int) -> Node:
        above = super()._split(node, length)
        above.on_host, above.inserted, above.loading = node.on_host, node.inserted, node.loading
        self._note_copies(above)
        return above

    # -- loads ---------------------------------------------------------------------------

    def load(self, node: Node, blocks: list[int]) -> None:
        """Give nodes up to one blocks of the GPU, into which they are loaded; the load locks them."""
        end, first = node, len(blocks)
        while node.above is not None and not node.blocks:
            assert node.on_host
            first -= len(node.names)
            node.blocks = blocks[first : first + len(node.names)]
            node.loading = end
            node = node.above
        assert first == 0
        self.lock(end)

    def end_load(self, node: Node) -> None:
        """Take back the lock of a load."""
        self.unlock(node)
        for one in node.path:
            if one.loading is node:
                one.loading = None
                self._note_copies(one)

    # -- evictions ---------------------------------------------------------------------------

    def _is_leaf(self, node: Node) -> bool:
        """Whether the GPU may evict a node."""
        on_gpu = [below for below in node.below.values() if below.blocks]
        return node.locks == 0 and bool(node.blocks) and not on_gpu

    def evict(self) -> list[int]:
        """Evict a leaf from the GPU; return its blocks, none without a leaf."""
        leaf = min(
            (one for one in self.nodes if self._is_leaf(one)), key=lambda node: node.used, default=None
        )
        if leaf is None:
            return []
        blocks = leaf.blocks
        self.evictions += len(blocks)
        if not leaf.on_host and self._write == "back" and self._store(leaf):
            self.at_once.append(len(blocks))
            self._note_copies(leaf)
        leaf.blocks = []
        if not leaf.on_host:
            self._drop(leaf)
        return blocks

    def _drop(self, node: Node) -> None:
        """Remove a node and all below it from the tree."""
        assert node.above is not None
        for below in list(node.below.values()):
            self._drop(below)
        del node.above.below[node.names[0]]
        self._copies.pop(node, None)
        self.host_evictions += len(node.names) * node.on_host

    def _evict_from_host(self, blocks: int) -> int:
        """Evict blocks from the host; return how many."""
        freed = self._give_up_copies(blocks) if self._write == "back" else 0
        while freed < blocks:
            kept = [node for end, blocks in self._kept for node in self.parts(end, blocks)]
            able = [one for one in self.nodes if not (one.blocks or one.below or one.locks)]
            leaves = [one for one in able if one not in kept]
            if not leaves:
                break
            leaf = min(leaves, key=lambda node: node.used)
            freed += len(leaf.names)
            self._drop(leaf)
        return freed

    def _note_copies(self, node: Node) -> None:
        """Note a node that is on the GPU and on the host, and of which no copy is under way."""
        if node.blocks and node.on_host and node.loading is None:
            self._copies.setdefault(node)
        else:
            self._copies.pop(node, None)

    def _give_up_copies(self, blocks: int) -> int:
        """Give up copies of what the GPU has, those that it may evict next last; return how many blocks."""
        freed, noted = 0, list(self._copies)
        for spares in (True, False):
            for node in noted:
                if freed >= blocks:
                    return freed
                if not (node.blocks and node.on_host):
                    self._copies.pop(node, None)
                elif node.loading is None and not (spares and self._is_leaf(node)):
                    node.on_host = False
                    self.host_evictions += len(node.names)
                    freed += len(node.names)
                    del self._copies[node]
        return freed

    # -- a store below the host ----------------------------------------------------------------

    @staticmethod
    def parts(end: Node, blocks: int) -> list[Node]:
        """Return the nodes that one with so many blocks has become, the upper ones first."""
        found: list[Node] = []
        for node in end.path:
            if sum(len(one.names) for one in found) >= blocks:
                break
            found.insert(0, node)
        return found

    def keep(self, node: Node) -> tuple[Node, int]:
        """Keep a node on the host, and what it becomes; return what gives it up."""
        self._kept.append((node, len(node.names)))
        return self._kept[-1]

    def give_up(self, kept: tuple[Node, int]) -> None:
        """Undo a `keep`."""
        self._kept.remove(kept)

    def take_room(self, blocks: int, least: int) -> int:
        """Take room on the host for up to so many blocks, at least for ``least``; return for how many."""
        if self.capacity - self.used < blocks:
            self._evict_from_host(blocks)
        room = min(blocks, self.capacity - self.used)
        room = room if room >= least else 0
        self.reading += room
        self.peak = max(self.peak, self.used)
        return room

    def insert_read(self, node: Node, names: Sequence[Hashable]) -> int:
        """Insert what has been read below a node; return how many of the blocks the host had."""
        self._use(node)
        at = had = 0
        while at < len(names) and names[at] in node.below:
            node = node.below[names[at]]
            self._use(node)
            equal = equal_names(node.names, names[at:])
            if equal < len(node.names):
                node = self._split(node, equal)
            had += equal if node.on_host else 0
            node.on_host = True
            self._note_copies(node)
            at += equal
        if at < len(names):
            self._add(node, list(names[at:]), []).on_host = True
        self.reading -= len(names)
        return had
