"""The pool of KV blocks where expressions say in which order cached blocks are evicted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from paceline.testing.reference.blocks import BlockPool
from paceline.testing.reference.policy_sim.expression import Expr, SortKey, evaluate, sort_key
from paceline.testing.reference.policy_sim.request import Request

TICKS_PER_SECOND = 10**12


def seconds(ticks: int) -> float:
    """Return a span of ticks in seconds."""
    return ticks / TICKS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Use:
    """How a block was freed: when, by which request, where in its sequence, and after how many others."""

    at: int
    by: Request
    position: int
    number: int


@dataclass(frozen=True, slots=True)
class _View:
    """A block as an expression sees it."""

    now: int
    use: Use
    uses: int

    def field(self, name: str, position: int | None) -> float:
        space, field = name.split(".")
        if space == "block":
            return {
                "used_s": seconds(self.use.at),
                "idle_s": seconds(self.now - self.use.at),
                "uses": self.uses,
                "position": self.use.position,
            }[field]
        if field == "column":
            assert position is not None
            return self.use.by.spec.numbers[position]
        spec = self.use.by.spec
        return seconds(spec.arrival) if field == "arrival_s" else float(getattr(spec, field))

    def each(self, within: list[int] | None) -> Any:  # noqa: ANN401 - there are no instances
        raise AssertionError(within)


class EvictingPool(BlockPool):
    """A pool whose free blocks with known contents are reused last, in an order of their own.

    Parameters
    ----------
    count : int
    evict : dict
        The order, as the engine's configuration has it.

    Attributes
    ----------
    now : int
        The present moment, which the simulator sets.
    """

    def __init__(self, count: int, evict: dict[str, Any]) -> None:
        super().__init__(count)
        self.now = 0
        self._evict = evict
        self._freed_at = 0  # the latest moment at which blocks were freed
        self._frees = 0
        self._use: dict[int, Use] = {}
        self._uses: dict[int, int] = {}

    def release(self, blocks: Iterable[int], by: object = None) -> None:
        """Free blocks as of the last of a sequence first."""
        freed = list(blocks)
        assert isinstance(by, Request)
        self._freed_at = self.now
        for before, block in enumerate(freed):
            if self._references[block] == 1 and block in self._content:
                position = len(freed) - 1 - before
                self._use[block] = Use(self.now, by, position, self._frees)
                self._frees += 1
        super().release(freed, by)

    def touch(self, blocks: Iterable[int]) -> None:
        """Add a use to each block."""
        found = list(blocks)
        for block in found:
            self._uses[block] += 1
        super().touch(found)

    def take(self, count: int) -> list[int]:
        """Take blocks without known content from the front of the queue, then others by their order."""
        taken = []
        for _ in range(count):
            unknown = next((block for block in self._queue if block not in self._content), None)
            block = self._first() if unknown is None else unknown
            self._queue.move_to_end(block, last=False)
            taken += super().take(1)
            self._uses[block] = 1
        return taken

    def _first(self) -> int:
        """Return the known block that is evicted next."""
        groups = self._evict.get("groups")
        if groups is None:
            return min(self._queue, key=lambda block: self._rank(self._evict["order"], block))
        heads: dict[object, int] = {}
        for block in sorted(self._queue, key=lambda block: self._rank(self._evict["order"], block)):
            heads.setdefault(self._rank(groups["by"], block)[0], block)
        return min(heads.values(), key=lambda block: self._rank(groups["first"], block))

    def _rank(self, expr: Expr, block: int) -> tuple[SortKey, int]:
        """Return what orders blocks: a value, and the order in which they were freed."""
        use = self._use[block]
        value = evaluate(expr, _View(self._freed_at, use, self._uses[block]))
        return sort_key(value), use.number
