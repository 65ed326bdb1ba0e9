"""The pool of KV blocks: a free queue, reference counts, and the cached contents.

Follows the block pool of vLLM 0.33.0 (``vllm/v1/core/block_pool.py``):

* a block is taken from the front of the free queue, and only then loses its content;
* freed blocks with known content go to the back, the others to the front (in 0.11.0 to the back, too);
* a hit on a free block takes it out of the middle of the queue;
* blocks with equal contents are all kept, and a lookup finds the one registered first.

The pool has usable blocks only, without vLLM's null block. Schedulers without a prefix cache use the
same pool and register nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable


class BlockPool:
    """Blocks ``0 .. count - 1``, all free to begin with.

    Parameters
    ----------
    count : int
    unknown_first : bool
        Whether freed blocks without known content go to the front of the free queue.

    Examples
    --------
    >>> pool = BlockPool(3)
    >>> first, second = pool.take(2)
    >>> pool.register(first, content=7)
    >>> pool.release([second, first])
    >>> pool.free, pool.find(7) == first
    (3, True)
    >>> pool.take(2)                            # `second` held nothing known: it is reused first
    [1, 2]
    >>> pool.touch([first])
    >>> pool.free
    0
    """

    def __init__(self, count: int, *, unknown_first: bool = True) -> None:
        self.evictions = 0  # known contents that were lost to reuse
        self.lost: list[Hashable] | None = None  # the latest of them, if they are listed
        self._unknown_first = unknown_first
        self._queue: OrderedDict[int, None] = OrderedDict.fromkeys(range(count))
        self._references = [0] * count
        self._content: dict[int, Hashable] = {}
        self._blocks_with: dict[Hashable, list[int]] = {}
        self._released: set[int] = set()  # blocks with known contents that a sequence has released

    @property
    def free(self) -> int:
        """Blocks no sequence holds, whether or not their content could still be hit."""
        return len(self._queue)

    @property
    def held(self) -> int:
        """Blocks that at least one sequence holds."""
        return len(self._references) - self.free

    @property
    def known_free(self) -> int:
        """Free blocks whose content could still be hit."""
        return len(self._queue.keys() & self._content.keys())

    def is_free(self, block: int) -> bool:
        """Whether no sequence holds the block."""
        return self._references[block] == 0

    def references(self, block: int) -> int:
        """How many sequences hold the block."""
        return self._references[block]

    def take(self, count: int) -> list[int]:
        """Take ``count`` blocks from the front of the queue; their old contents are gone."""
        taken = []
        for _ in range(count):
            block, _ = self._queue.popitem(last=False)
            self._forget(block)
            self._references[block] = 1
            taken.append(block)
        return taken

    def touch(self, blocks: Iterable[int]) -> None:
        """Add a reference to each block, which takes free ones out of the queue."""
        for block in blocks:
            if self._references[block] == 0:
                del self._queue[block]
            self._references[block] += 1

    def release(self, blocks: Iterable[int], by: object = None) -> None:
        """Drop a reference to each block; blocks without references are free, in the order given.

        ``by`` is the request that held them, which matters where their order is not that of their release.
        """
        del by
        known: list[int] = []
        unknown: list[int] = []
        for block in blocks:
            self._references[block] -= 1
            if block in self._content:
                self._released.add(block)
            if self._references[block] == 0:
                behind = block in self._content or not self._unknown_first
                (known if behind else unknown).append(block)
        for block in reversed(unknown):
            self._queue[block] = None
            self._queue.move_to_end(block, last=False)
        for block in known:
            self._queue[block] = None

    def find(self, content: Hashable) -> int | None:
        """Return the block that has held ``content`` for longest, or None."""
        blocks = self._blocks_with.get(content)
        return blocks[0] if blocks else None

    def find_released(self, content: Hashable) -> int | None:
        """Return the block that has held ``content`` for longest, of those that a sequence has released."""
        blocks = self._blocks_with.get(content, [])
        return next((block for block in blocks if block in self._released), None)

    def register(self, block: int, content: Hashable) -> None:
        """Make ``block`` a hit for ``content`` from now on."""
        self._content[block] = content
        self._blocks_with.setdefault(content, []).append(block)

    def _forget(self, block: int) -> None:
        content = self._content.pop(block, None)
        if content is not None:
            self._blocks_with[content].remove(block)
            self._released.discard(block)
            self.evictions += 1
            if self.lost is not None:
                self.lost.append(content)


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that ``tokens`` tokens fill, the last one perhaps in part."""
    return -(-tokens // block_size)
