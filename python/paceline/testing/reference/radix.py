"""A radix tree of cached prefixes: nodes of several blocks, which are locked, split, and evicted whole.

Follows the tree of SGLang 0.5.23 (``srt/mem_cache/unified_cache/unified_tree_core.py`` and
``components/full.py``), with pages as large as blocks:

* a lookup that ends inside a node splits it; all nodes of the path that it found are used last by it;
* an insertion gives the tree the blocks that it lacks, and the request those that the tree has already;
* a request locks the path to the last node of its prefix;
* of the unlocked leaves, the one that was used the longest ago is evicted, with all its blocks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

__all__ = ["Node", "RadixTree", "equal_names"]


class Node:
    """Consecutive blocks of a prefix, with those before them in the nodes above.

    Attributes
    ----------
    names : list
        What the blocks hold.
    blocks : list of int
    above : Node or None
        None: it is the root.
    below : dict
        By the name of the first block.
    locks : int
        Requests whose path it is on.
    used : int
        When it was used last.
    on_host : bool
        Whether the host's memory has it, where there is a tier; what it alone has is without blocks.
    inserted : int
        How often requests have inserted it, while it may be written to the host.
    loading : Node or None
        The last node of the load that it is part of.
    """

    def __init__(self, names: list[Hashable], blocks: list[int], above: Node | None, used: int) -> None:
        self.names, self.blocks, self.above, self.used = names, blocks, above, used
        self.below: dict[Hashable, Node] = {}
        self.locks = self.inserted = 0
        self.on_host = False
        self.loading: Node | None = None

    @property
    def path(self) -> list[Node]:
        """The node and those above it but the root, the lowest first."""
        found, node = [], self
        while node.above is not None:
            found.append(node)
            node = node.above
        return found


class RadixTree:
    """A tree without nodes but its root.

    Attributes
    ----------
    evictions : int
        Blocks that were evicted.

    Examples
    --------
    >>> tree = RadixTree()
    >>> tree.insert("abcd", [1, 2, 3, 4])[1]
    []
    >>> node, blocks = tree.match("abx")
    >>> blocks, node.names, [child.names for child in node.below.values()]
    ([1, 2], ['a', 'b'], [['c', 'd']])
    >>> tree.insert("abcd", [1, 2, 5, 6])[1]      # the tree has both blocks already
    [3, 4]
    >>> tree.lock(node)
    >>> tree.unlocked, tree.evict(), tree.unlocked
    (2, [3, 4], 0)
    """

    def __init__(self) -> None:
        self.root = Node([], [], None, 0)
        self.evictions = 0
        self._clock = 0

    @property
    def nodes(self) -> list[Node]:
        """All nodes but the root."""
        found: list[Node] = []
        left = [self.root]
        while left:
            node = left.pop()
            found += node.below.values()
            left += node.below.values()
        return found

    @property
    def unlocked(self) -> int:
        """Blocks of nodes that no request has locked."""
        return sum(len(node.blocks) for node in self.nodes if node.locks == 0)

    def find(self, names: Sequence[Hashable]) -> tuple[list[Node], int]:
        """Return the nodes that begin a sequence, and how many blocks of the last of them it has."""
        found, node, at = [], self.root, 0
        while at < len(names) and names[at] in node.below:
            node = node.below[names[at]]
            found.append(node)
            equal = equal_names(node.names, names[at:])
            at += equal
            if equal < len(node.names):
                return found, equal
        return found, len(found[-1].names) if found else 0

    def match(self, names: Sequence[Hashable]) -> tuple[Node, list[int]]:
        """Use the longest prefix of a sequence; return its last node, and its blocks."""
        found, equal = self.find(names)
        node = self.root
        if found:
            node = found[-1]
            if equal < len(node.names):
                node = self._split(node, equal)
        blocks = []
        for one in reversed(node.path):
            self._use(one)
            blocks += one.blocks
        return node, blocks

    def insert(
        self, names: Sequence[Hashable], blocks: Sequence[int], counted: int = 0
    ) -> tuple[Node, list[int]]:
        """Insert a sequence; return its last node, and the blocks for whose contents the tree has others.

        ``counted``: its first blocks that the request has inserted before.
        """
        node, at, others = self.root, 0, []
        while at < len(names) and names[at] in node.below:
            node = node.below[names[at]]
            self._use(node)
            equal = equal_names(node.names, names[at:])
            if equal < len(node.names):
                node = self._split(node, equal)
            others += [own for own in node.blocks if own not in blocks]
            at += len(node.names)
        if at < len(names):
            node = self._add(node, list(names[at:]), list(blocks[at:]))
        return node, others

    def _add(self, above: Node, names: list[Hashable], blocks: list[int]) -> Node:
        """Add a leaf."""
        self._clock += 1
        leaf = above.below[names[0]] = Node(names, blocks, above, self._clock)
        return leaf

    def blocks_of(self, node: Node) -> list[int]:
        """Return the blocks of the path to a node."""
        return [block for one in reversed(node.path) for block in one.blocks]

    def lock(self, node: Node) -> None:
        """Keep the path to a node from eviction."""
        for one in node.path:
            one.locks += 1

    def unlock(self, node: Node) -> None:
        """Take back a lock."""
        for one in node.path:
            one.locks -= 1

    def evict(self) -> list[int]:
        """Evict the unlocked leaf that was used the longest ago; return its blocks, none without a leaf."""
        leaves = [node for node in self.nodes if node.locks == 0 and not node.below]
        if not leaves:
            return []
        leaf = min(leaves, key=lambda node: node.used)
        assert leaf.above is not None
        del leaf.above.below[leaf.names[0]]
        self.evictions += len(leaf.blocks)
        return leaf.blocks

    def _use(self, node: Node) -> None:
        self._clock += 1
        node.used = self._clock

    def _split(self, node: Node, length: int) -> Node:
        """Split a node after some of its blocks; return the new one, which is above it."""
        assert node.above is not None
        self._clock += 1
        above = Node(node.names[:length], node.blocks[:length], node.above, self._clock)
        above.locks = node.locks
        above.below[node.names[length]] = node
        node.above.below[node.names[0]] = above
        node.names, node.blocks, node.above = node.names[length:], node.blocks[length:], above
        self._use(node)
        return above


def equal_names(names: Sequence[Hashable], others: Sequence[Hashable]) -> int:
    """Return how many leading names are equal."""
    both = zip(names, others, strict=False)
    return next((at for at, (a, b) in enumerate(both) if a != b), min(len(names), len(others)))
